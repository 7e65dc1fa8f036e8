/* units.h -- numbers, sizes and durations as people write them, and the nearest known word. Pure.
 */
#ifndef OTLITE_CLI_UNITS_H
#define OTLITE_CLI_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UNITS_TEXT = 32 };

/* Decimal digits with an optional '-'. False on anything else, or when it does not fit. */
bool int_parse(const char *s, int64_t *out);
/* Digits and an optional K, M, G or T (either case), powers of 1024. */
bool size_parse(const char *s, int64_t *out);
/* Digits and ms, s, m, h or d; a bare 0 is fine. In milliseconds. */
bool duration_parse(const char *s, int64_t *out_ms);

/* The shortest exact text that the parser reads back. */
void size_text(int64_t bytes, char out[UNITS_TEXT]);
void duration_text(int64_t ms, char out[UNITS_TEXT]);

/* Edit distance without regard to case; long words are compared by their first 63 bytes. */
size_t word_distance(const char *a, const char *b);

/* Keeps the nearest of the words offered: zero-initialise, offer each, read best. */
struct nearest {
    const char *best; /* NULL until one was offered */
    size_t distance;
};
void nearest_offer(struct nearest *n, const char *word, const char *candidate);

#endif
