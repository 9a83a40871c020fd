# sovia: sockets over VIA. libsovia for programs that are linked with it, libsovia-preload for those
# that are not, the program sovia.

sovia_sources = \
	sovia/counters.cc sovia/counters.h \
	sovia/kernel.cc sovia/kernel.h \
	sovia/options.cc sovia/options.h \
	sovia/own_descriptors.cc sovia/own_descriptors.h \
	sovia/reason.cc sovia/reason.h \
	sovia/socket.h \
	sovia/table.h \
	sovia/waiting.h
