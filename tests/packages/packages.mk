# tests/packages: the Debian packages, in a fresh Debian. Minutes, and the network: not a part of `make check`.
EXTRA_DIST += tests/packages/check_packages
phony_targets += check-packages
check-packages:
	$(srcdir)/tests/packages/check_packages
