# examples/ftp: upstream's ftp programs on SOVIA. Nothing here is compiled with the rest: README.md tells how
# the sources are fetched and built.

EXTRA_DIST += examples/ftp/README.md examples/ftp/build examples/ftp/fetch examples/ftp/ftpdemo \
	examples/ftp/linux_ftpd.h examples/ftp/with_accounts \
	examples/ftp/demo/__init__.py \
	examples/ftp/demo/checks.py \
	examples/ftp/demo/client.py \
	examples/ftp/demo/files.py \
	examples/ftp/demo/hosts.py \
	examples/ftp/demo/measure.py \
	examples/ftp/demo/pairs.py \
	examples/ftp/demo/report.py
