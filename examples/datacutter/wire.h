/* The messages between the stages of the pipeline, over TCP; numbers in network byte order.
 *
 *   source -> filter          hello, then blocks, then an end
 *   filter -> source          the number of each block that is done, unless the hello has SILENT
 *   filter -> filter, sink    the same hello, the blocks as they were made of those, the same end
 *
 *   viewer -> repository      a header for each query: how many blocks, of how many bytes
 *   repository -> filter      a silent hello, then the blocks of all queries, then an end
 */
#ifndef VIADUCT_EXAMPLES_DATACUTTER_WIRE_H
#define VIADUCT_EXAMPLES_DATACUTTER_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define MOST_FILTERS 64
#define MOST_BYTES (1u << 24) /* of a block, and of an image */
#define END 0xffffffffu       /* in place of a block's number; its bytes are the number of blocks */
#define SILENT 0x80000000u    /* a hello with it asks for no numbers of blocks that are done */

struct header {
  uint32_t number;
  uint32_t bytes;
};

/* All of these end the program, with what was being done, when that fails. */
void fail(const char *what);
int connect_to(const char *host_and_port); /* HOST:PORT; tries for ten seconds */
int listen_on(const char *port);
int accept_from(int listener);
void send_all(int s, const void *from, size_t bytes);
void send_header(int s, uint32_t number, uint32_t bytes);
/* The header and the bytes, by one call. */
void send_block(int s, uint32_t number, const void *bytes, uint32_t count);
void send_number(int s, uint32_t number);
void receive_all(int s, void *to, size_t bytes);
struct header receive_header(int s);
uint32_t receive_number(int s);

/* Fills in the bytes of a block, which follow from its number. */
void make_block(unsigned char *to, uint32_t number, uint32_t bytes);
/* A filter's result for a byte. */
#define FILTERED(byte) ((unsigned char)~(byte))

double now_us(void);

#endif
