#include "otlite/reason.h"

const char *reject_label(enum reject_reason r)
{
    static const char *const label[] = {
#define X(code, name, text) name,
        OTL_REJECT_REASONS(X)
#undef X
    };

    return (unsigned)r < REJECT_COUNT_OF_REASONS ? label[r] : "unknown";
}

const char *reject_text(enum reject_reason r)
{
    static const char *const words[] = {
#define X(code, name, text) text,
        OTL_REJECT_REASONS(X)
#undef X
    };

    return (unsigned)r < REJECT_COUNT_OF_REASONS ? words[r] : "unknown";
}

const char *warning_label(enum warning w)
{
    static const char *const label[] = {
#define X(code, name, text) name,
        OTL_WARNINGS(X)
#undef X
    };

    return (unsigned)w < WARN_COUNT_OF_WARNINGS ? label[w] : "unknown";
}

const char *warning_text(enum warning w)
{
    static const char *const words[] = {
#define X(code, name, text) text,
        OTL_WARNINGS(X)
#undef X
    };

    return (unsigned)w < WARN_COUNT_OF_WARNINGS ? words[w] : "unknown";
}
