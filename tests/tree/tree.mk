# tests/tree: the promises of the source tree as such.
TESTS += tests/tree/completion.test tests/tree/help.test tests/tree/locks.test tests/tree/man_pages.test tests/tree/results.test tests/tree/rules.test tests/tree/wire_fields.test
EXTRA_DIST += tests/tree/completion.test tests/tree/help.test tests/tree/locks.test tests/tree/man_pages.test tests/tree/results.test tests/tree/rules.py tests/tree/rules.test tests/tree/wire_fields.py \
	tests/tree/wire_fields.test
