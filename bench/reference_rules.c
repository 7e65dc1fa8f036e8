#include "reference_rules.h"

#include <math.h>

#define MAX_ERROR_SHARE    0.05
#define MIN_ACHIEVED_SHARE 0.70
#define CLEAN_SHARE        0.95

enum step_verdict step_judge(const struct step_figures *f)
{
    if (f->requests == 0 || (double)f->errors > MAX_ERROR_SHARE * (double)f->requests ||
        f->achieved < MIN_ACHIEVED_SHARE * f->target)
        return STEP_FAILED;
    if (f->errors == 0 && f->achieved >= CLEAN_SHARE * f->target)
        return STEP_CLEAN;
    return STEP_PASSED;
}

const char *step_verdict_text(enum step_verdict v)
{
    switch (v) {
    case STEP_FAILED:
        return "failed";
    case STEP_PASSED:
        return "passed";
    case STEP_CLEAN:
        return "clean";
    }
    return "";
}

bool ramp_advance(struct ramp *r, bool passed)
{
    double next;

    if (passed && r->next > r->passed)
        r->passed = r->next;
    if (!passed && (r->failed <= 0 || r->next < r->failed))
        r->failed = r->next;
    if (r->failed <= 0) {
        if (r->limit > 0 && r->next >= r->limit)
            return false;
        next = r->next * r->factor;
        r->next = r->limit > 0 && next > r->limit ? r->limit : next;
        return true;
    }
    if (r->passed <= 0) {
        if (r->descents == 0)
            return false;
        r->descents--;
        r->next /= r->factor;
        return true;
    }
    if (r->halvings == 0)
        return false;
    r->halvings--;
    r->next = sqrt(r->passed * r->failed);
    return true;
}
