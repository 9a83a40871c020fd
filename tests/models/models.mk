# Models in Promela, for spin.
TESTS += tests/models/models.test
EXTRA_DIST += tests/models/models.test tests/models/listeners.pml tests/models/stream.pml
