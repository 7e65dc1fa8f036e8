/* reason.h -- the words for why a point is rejected, and what is worth a warning.
 *
 * One list feeds the batch's counters, partial_success, the log and the self-metrics
 * (label reason="..."). Rules: otlp.md chapter 3. */
#ifndef OTLITE_REASON_H
#define OTLITE_REASON_H

/* enum, metric label, text for people (completes "N points rejected: ..."). */
#define OTL_REJECT_REASONS(X)                                                                      \
    X(REJECT_TIME_ZERO, "time_zero", "timeUnixNano is 0 or absent; set the time of the observation") \
    X(REJECT_TIME_RANGE, "time_range", "time is past the year 2262 and cannot be stored")         \
    X(REJECT_TIME_FUTURE, "time_future", "time is too far in the future; check the sender's clock") \
    X(REJECT_NO_VALUE, "no_value", "the point has neither a value nor the no-recorded-value flag") \
    X(REJECT_VALUE, "value", "a number of the point is not valid or out of its range")            \
    X(REJECT_TEMPORALITY, "temporality",                                                          \
      "aggregationTemporality is not 1 (delta) or 2 (cumulative)")                                \
    X(REJECT_NAME, "name", "the metric name is empty, too long or not UTF-8")                     \
    X(REJECT_BUCKETS, "buckets",                                                                  \
      "bucketCounts must have one entry more than explicitBounds, or both be empty")              \
    X(REJECT_BOUNDS, "bounds", "explicitBounds must increase strictly and hold no NaN")           \
    X(REJECT_COUNT, "count", "a count is above 2^63-1, or bucket counts do not add up to count")  \
    X(REJECT_EXPONENTIAL, "exponential",                                                          \
      "scale, offset or zeroThreshold is outside what a double can express")                      \
    X(REJECT_QUANTILES, "quantiles", "quantiles must lie in [0, 1] and be distinct")              \
    X(REJECT_TOO_MANY_BUCKETS, "too_many_buckets", "more buckets than otlp.max_buckets allows")   \
    X(REJECT_ATTRIBUTES, "attributes",                                                            \
      "more attributes or attribute bytes than otlp.max_attributes and otlp.max_attribute_bytes allow")

enum reject_reason {
#define X(code, label, text) code,
    OTL_REJECT_REASONS(X)
#undef X
    REJECT_COUNT_OF_REASONS
};

#define OTL_WARNINGS(X)                                                                            \
    X(WARN_DUPLICATE_KEY, "duplicate_key", "an attribute key occurs twice; the last value was kept") \
    X(WARN_EMPTY_KEY, "empty_key", "an attribute with an empty key was dropped")                  \
    X(WARN_UTF8, "utf8", "text that is not UTF-8 was repaired with U+FFFD")                       \
    X(WARN_STRINDEX, "strindex", "keyStrindex and stringValueStrindex mean nothing in metrics")   \
    X(WARN_ENTITY_REF, "entity_ref", "an entity reference is not valid and was dropped")          \
    X(WARN_NO_DATA, "no_data", "a metric has no data of a known kind and was skipped")            \
    X(WARN_START_AFTER_TIME, "start_after_time",                                                  \
      "a start time lies after its point's time and was taken as unknown")                        \
    X(WARN_COUNT_MISMATCH, "count_mismatch", "bucket counts do not add up to count")              \
    X(WARN_ZERO_COUNT_SUM, "zero_count_sum", "count is 0 but sum is not")                         \
    X(WARN_MIN_MAX, "min_max", "min is greater than max")                                         \
    X(WARN_NEGATIVE_QUANTILE, "negative_quantile", "a summary has a negative quantile value")     \
    X(WARN_EXEMPLAR, "exemplar", "an exemplar without a value was dropped, or a bad trace or span id") \
    X(WARN_INT_AS_DOUBLE, "int_as_double",                                                        \
      "an integer attribute outside 64 bits was stored as a double")                              \
    X(WARN_UNKNOWN_KEY, "unknown_key",                                                            \
      "snake_case keys are not OTLP/JSON and were ignored; use lowerCamelCase")                   \
    X(WARN_NULL_ELEMENT, "null_element", "a null array element was skipped")                      \
    X(WARN_SURROGATE, "surrogate", "a lone surrogate escape was replaced by U+FFFD")              \
    X(WARN_NAME_CONFLICT, "name_conflict",                                                        \
      "a metric name is in use with another unit, type or temporality; stored as separate metrics") \
    X(WARN_DUPLICATE_POINT, "duplicate_point",                                                    \
      "two points of a series have one time and different values; the later one was kept")

enum warning {
#define X(code, label, text) code,
    OTL_WARNINGS(X)
#undef X
    WARN_COUNT_OF_WARNINGS
};

const char *reject_label(enum reject_reason r);
const char *reject_text(enum reject_reason r);
const char *warning_label(enum warning w);
const char *warning_text(enum warning w);

#endif
