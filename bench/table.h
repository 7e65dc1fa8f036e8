/* table.h -- `otlite-bench table`: figures that a script collected, reported as every subcommand
 * reports its own (result.h). */
#ifndef OTLITE_BENCH_TABLE_H
#define OTLITE_BENCH_TABLE_H

/* Returns an exit status (sysexits.h). */
int table_main(int argc, char **argv);

#endif
