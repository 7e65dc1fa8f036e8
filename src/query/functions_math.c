/* functions_math.c -- functions of one float. Histograms have no value, so none comes of them. */
#include <math.h>

#include "functions_internal.h"

#define PI 3.14159265358979323846

/* Result of x, the sample's value. */
#define OF_FLOAT(name, result)  \
    MAP_FUNCTION(name)          \
    {                           \
        const double x = in->v; \
                                \
        (void)c;                \
        (void)err;              \
        if (in->h == NULL)      \
            out->v = (result);  \
        return OTL_OK;          \
    }

OF_FLOAT(fn_abs, fabs(x))
OF_FLOAT(fn_acos, acos(x))
OF_FLOAT(fn_acosh, acosh(x))
OF_FLOAT(fn_asin, asin(x))
OF_FLOAT(fn_asinh, asinh(x))
OF_FLOAT(fn_atan, atan(x))
OF_FLOAT(fn_atanh, atanh(x))
OF_FLOAT(fn_ceil, ceil(x))
OF_FLOAT(fn_cos, cos(x))
OF_FLOAT(fn_cosh, cosh(x))
OF_FLOAT(fn_deg, x * 180 / PI)
OF_FLOAT(fn_exp, exp(x))
OF_FLOAT(fn_floor, floor(x))
OF_FLOAT(fn_ln, log(x))
OF_FLOAT(fn_log10, log10(x))
OF_FLOAT(fn_log2, log2(x))
OF_FLOAT(fn_rad, x *PI / 180)
/* NaN and both zeros stay what they are. */
OF_FLOAT(fn_sgn, x<0 ? -1 : x> 0 ? 1 : x)
OF_FLOAT(fn_sin, sin(x))
OF_FLOAT(fn_sinh, sinh(x))
OF_FLOAT(fn_sqrt, sqrt(x))
OF_FLOAT(fn_tan, tan(x))
OF_FLOAT(fn_tanh, tanh(x))

/* To the nearest multiple, halves up. Multiplied by the inverse, which loses less than a division.
 */
MAP_FUNCTION(fn_round)
{
    const double inverse = 1 / (c->n_scalars > 0 ? c->scalars[0] : 1);

    (void)err;
    if (in->h == NULL)
        out->v = floor(in->v * inverse + 0.5) / inverse;
    return OTL_OK;
}

/* Unlike fmin and fmax these give NaN of a NaN, except where the other one decides alone. */
static double least(double a, double b)
{
    if (isnan(a) || isnan(b))
        return a == -(double)INFINITY || b == -(double)INFINITY ? -(double)INFINITY : (double)NAN;
    if (a == 0 && b == 0)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

static double greatest(double a, double b)
{
    if (isnan(a) || isnan(b))
        return a == (double)INFINITY || b == (double)INFINITY ? (double)INFINITY : (double)NAN;
    if (a == 0 && b == 0)
        return signbit(a) ? b : a;
    return a > b ? a : b;
}

static enum otl_err clamp(const struct sample *in, double min, double max, struct sample *out)
{
    if (in->h == NULL && !(max < min))
        out->v = greatest(min, least(max, in->v));
    return OTL_OK;
}

MAP_FUNCTION(fn_clamp)
{
    (void)err;
    return clamp(in, c->scalars[0], c->scalars[1], out);
}

MAP_FUNCTION(fn_clamp_max)
{
    (void)err;
    return clamp(in, -(double)INFINITY, c->scalars[0], out);
}

MAP_FUNCTION(fn_clamp_min)
{
    (void)err;
    return clamp(in, c->scalars[0], (double)INFINITY, out);
}
