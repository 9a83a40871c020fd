# man
dist_man_MANS += man/viad.8 man/viad.conf.5 man/viaping.1 man/lab.1 man/viaduct-wire.7
