/* machine.h -- what the figures were measured on. */
#ifndef OTLITE_BENCH_MACHINE_H
#define OTLITE_BENCH_MACHINE_H

#include "otlite/bytes.h"

/* Append a description as a JSON object, or as a Markdown table: processor, cores, memory, kernel,
 * file system of TMPDIR (where the benchmark's daemons keep their data), versions of otlite,
 * SQLite, libevent, zlib and the compiler, time in UTC. What cannot be read is "unknown". Nothing
 * in it names the machine or its user. */
void machine_json(struct buf *out);
void machine_markdown(struct buf *out);

#endif
