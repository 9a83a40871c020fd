// Options of the sanitizers. A report ends the program, so that it is not overlooked.

extern "C" const char* __asan_default_options() { return "exitcode=66:detect_leaks=0"; }

extern "C" const char* __ubsan_default_options() { return "halt_on_error=1:exitcode=66"; }
