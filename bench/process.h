/* process.h -- what /proc says about a process. */
#ifndef OTLITE_BENCH_PROCESS_H
#define OTLITE_BENCH_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Seconds of CPU, user and system, all threads. False when there is no such process to be read. */
bool process_cpu_seconds(int64_t pid, double *out);
/* The same for this process. */
double process_own_cpu_seconds(void);
/* Most memory it ever held resident, in bytes (VmHWM). */
bool process_peak_bytes(int64_t pid, int64_t *out);

#endif
