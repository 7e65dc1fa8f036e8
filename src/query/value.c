#include "value.h"

#include <stdlib.h>

void prom_row_fini(struct prom_row *r)
{
    for (size_t i = 0; r->h != NULL && i < r->n; i++)
        histogram_free(r->h[i]);
    free(r->h);
    free(r->v);
    free(r->t);
    *r = (struct prom_row){0};
}

void prom_value_fini(struct prom_value *v)
{
    for (size_t i = 0; i < v->n_rows; i++)
        prom_row_fini(&v->rows[i]);
    free(v->rows);
    free(v->scalar);
    *v = (struct prom_value){0};
}
