/* column.h -- one column of values as bytes, and back, exact to the bit.
 *
 * Pure: no I/O, no globals. The encoder tries the encodings that can hold the column and takes the
 * shortest; the first byte of a stream names it. docs/format.md, "Columns", has every byte. The
 * number of values is not in the stream: the caller keeps it and passes it back. */
#ifndef OTLITE_STORE_COLUMN_H
#define OTLITE_STORE_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "otlite/bytes.h"

/* Values of one column: more are refused, so that no size computed from n can overflow. */
enum { COLUMN_MAX_VALUES = 1 << 24 };
/* Digits behind the point of doubles that are taken for decimals. */
enum { COLUMN_MAX_DIGITS = 15 };

/* Append the stream of v[0..n) to out (out->failed: no memory). n may be 0: an empty stream.
 * Integers of any kind; wrap-around is well defined, so all of int64 survives. */
void column_encode_ints(struct buf *out, const int64_t *v, size_t n);
/* The same for IEEE 754 bits: NaN payloads, -0.0, infinities and subnormals survive. Doubles that
 * are decimals of few digits become scaled integers where that is exact, others are XORed. */
void column_encode_doubles(struct buf *out, const uint64_t *bits, size_t n);
/* n byte strings, the i-th from end[i - 1] (0 for the first) to end[i] of data. Equal neighbours
 * cost next to nothing, and the text is deflated where that helps. */
void column_encode_bytes(struct buf *out, const uint8_t *data, const uint32_t *end, size_t n);

/* The least number of digits with which all n doubles are decimals (integer / 10^digits exactly);
 * -1: there is none. */
int column_decimal_digits(const double *v, size_t n);
/* The decimal of so many digits that is nearest to v; v itself from 2^52 / 10^digits on. */
double column_round_decimal(double v, int digits);

/* Decode all of in as n values. False: in is not the stream of n values (damaged); out is then
 * undefined. Never reads outside in, whatever it holds. */
bool column_decode_ints(struct bytes in, int64_t *out, size_t n) OTL_MUSTCHECK;
bool column_decode_doubles(struct bytes in, uint64_t *out, size_t n) OTL_MUSTCHECK;
/* Is in a stream of integers that are all *out, however many? False for others and damaged ones. */
bool column_ints_constant(struct bytes in, int64_t *out);
/* Appends to data and fills end[0..n), relative to data->n as it was. max: the most bytes of text
 * that the caller wants to hold; more is a false. */
bool column_decode_bytes(struct bytes in, struct buf *data, uint32_t *end, size_t n,
                         size_t max) OTL_MUSTCHECK;

#endif
