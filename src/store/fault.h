/* fault.h -- named steps of maintenance, at which a test can fail or end the process.
 *
 * A step is passed between two transactions or inside one; whatever happens there, the file holds
 * the same points when it is opened again (test/unit/test_maintain_crash.c goes through all of
 * them). */
#ifndef OTLITE_STORE_FAULT_H
#define OTLITE_STORE_FAULT_H

#include <stddef.h>

#include "otlite/err.h"

#define FAULT_POINTS(X)        \
    X("seal.begin")            \
    X("seal.blocks")           \
    X("seal.blocks.commit")    \
    X("seal.publish")          \
    X("seal.publish.commit")   \
    X("seal.empty")            \
    X("seal.empty.commit")     \
    X("merge.begin")           \
    X("merge.blocks")          \
    X("merge.blocks.commit")   \
    X("merge.publish")         \
    X("merge.publish.commit")  \
    X("retention.drop")        \
    X("retention.drop.commit") \
    X("forget")                \
    X("forget.commit")         \
    X("collect")               \
    X("collect.commit")        \
    X("vacuum")                \
    X("vacuum.commit")

typedef enum otl_err fault_fn(const char *point, struct otl_error *err);

/* NULL but in tests, which set it before the maintainer starts. */
extern fault_fn *fault_hook;

static inline enum otl_err fault_point(const char *point, struct otl_error *err)
{
    return fault_hook == NULL ? OTL_OK : fault_hook(point, err);
}

#endif
