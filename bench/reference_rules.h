/* reference_rules.h -- when a step of a ramp counts, and where a ramp goes next. Pure.
 *
 * The rule of a step is R1's: it fails when more than 5 % of the requests fail or less than 70 % of
 * the target rate is achieved. */
#ifndef OTLITE_BENCH_REFERENCE_RULES_H
#define OTLITE_BENCH_REFERENCE_RULES_H

#include <stdbool.h>
#include <stdint.h>

struct step_figures {
    double target;     /* points a second; > 0 */
    double achieved;   /* points a second in requests answered 200 in full */
    uint64_t requests; /* that had an answer, or were lost */
    uint64_t errors;   /* those without a 200 in full */
};

enum step_verdict {
    STEP_FAILED, /* over 5 % errors, under 70 % of the target, or no request at all */
    STEP_PASSED,
    STEP_CLEAN /* passed without an error and with at least 95 % of the target */
};

enum step_verdict step_judge(const struct step_figures *f);
/* "failed", "passed", "clean" */
const char *step_verdict_text(enum step_verdict v);

/* Geometric steps up until one fails, then `halvings` steps between the last that passed and the
 * first that failed; down by the same factor while none has passed. */
struct ramp {
    double next;       /* set to the first step; the step to take now */
    double factor;     /* > 1 */
    double limit;      /* no step above it; 0: none */
    unsigned halvings; /* still to do */
    unsigned descents; /* still to do, when the first step fails */
    double passed;     /* highest step that passed; 0: none yet */
    double failed;     /* lowest step that failed; 0: none yet */
};

/* Tell how the step `next` went. False when the ramp is at its end; next is left then. */
bool ramp_advance(struct ramp *r, bool passed);

#endif
