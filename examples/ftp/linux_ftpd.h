/* linux_ftpd.h: put before each source file of linux-ftpd 0.17 with -include, so that it compiles as it is.
 *
 * ftpcmd.y declares `extern struct tab cmdtab[]` and `sitetab[]` ahead of struct tab, which compilers have refused
 * since gcc 4. Until the file's second part, which `jmp_buf` marks (that is the first time it uses the word, just
 * before it defines struct tab), the two names stand for arrays of pointers without users. yacc must be one that puts
 * the second part before the grammar's actions, as byacc does.
 */
#include <setjmp.h>
#include <time.h> /* logwtmp.c relies on some other header for it */

#pragma push_macro("cmdtab")
#pragma push_macro("sitetab")
#define cmdtab *cmdtab_before
#define sitetab *sitetab_before
#define jmp_buf _Pragma("pop_macro(\"cmdtab\")") _Pragma("pop_macro(\"sitetab\")") jmp_buf
