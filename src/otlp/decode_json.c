/* decode_json.c -- OTLP/JSON into the message tree, driven by the generated descriptors.
 *
 * One pass over the events of json_reader. Recursion follows message nesting and is bounded by the
 * depth that the reader allows. What a fault costs (otlp.md chapter 2):
 *   syntax, or an object or array that is missing where one belongs     the request
 *   a scalar of the envelope (temporality, dropped counts, names)       the request
 *   a scalar anywhere below a data point                                that point
 *   a scalar anywhere below an exemplar                                 that exemplar
 *   a trace or span id                                                  that id
 * Duplicate keys: the last wins, as in ProtoJSON; but a point stays marked when a value that was
 * overruled later was bad. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "otlp/json_path.h"
#include "otlite/json_reader.h"
#include "otlp/message.h"

struct decoder {
    struct json_reader r;
    const struct decode_limits *lim;
    struct arena *a;
    struct decode_notes *notes;
    struct otl_error *err;
    uint32_t value_depth;    /* arrays and kvlists of a value around the current place */
    ProtobufCMessage *point; /* the data point around the current place, or NULL */
    bool point_bad;          /* it is marked already */
    bool in_exemplar;
    bool exemplar_bad;
};

union scalar {
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    double d;
    protobuf_c_boolean b;
    ProtobufCBinaryData bytes;
};

static enum otl_err decode_message(struct decoder *d, ProtobufCMessage *m,
                                   const struct json_place *at);

/* ---- errors and notes ---- */

static void set_field(struct decoder *d, const struct json_path *path)
{
    if (d->err != NULL)
        memcpy(d->err->field, path->s, path->n + 1);
}

static enum otl_err no_room(struct decoder *d)
{
    if (d->a->over_budget) {
        return otl_fail(d->err, OTL_ETOOBIG,
                        "The decoded request would take more than %zu bytes of memory; send fewer "
                        "points a request.",
                        d->a->budget);
    }
    return otl_fail(d->err, OTL_ENOMEM, "There is no memory to decode the request; send it again.");
}

/* After JSON_EV_ERROR. */
static enum otl_err reader_failed(struct decoder *d, const struct json_place *at)
{
    struct json_path path;

    if (d->r.error_code != OTL_EBADDATA)
        return no_room(d);
    json_path_of(at, &path);
    (void)otl_fail(d->err, OTL_EBADDATA, "The body is not valid JSON: %s, at byte %zu%s%s.",
                   d->r.error_text, d->r.error_at, path.n > 0 ? ", in " : "", path.s);
    set_field(d, &path);
    return OTL_EBADDATA;
}

/* The request is refused because of the value that began with event. */
static enum otl_err refuse(struct decoder *d, enum json_event event, const struct json_place *at,
                           const char *wanted)
{
    struct json_path path;
    char found[96];

    if (event == JSON_EV_ERROR)
        return reader_failed(d, at);
    json_path_of(at, &path);
    json_describe(event, d->r.text, found, sizeof(found));
    (void)otl_fail(d->err, OTL_EBADDATA, "%s is %s; it must be %s.",
                   path.n > 0 ? path.s : "The body", found, wanted);
    set_field(d, &path);
    return OTL_EBADDATA;
}

/* A scalar that cannot be taken: the value that began with event is skipped, and costs the
 * smallest whole around it. */
static enum otl_err bad_scalar(struct decoder *d, enum json_event event,
                               const struct json_place *at, const char *wanted)
{
    if (event == JSON_EV_ERROR || d->point == NULL)
        return refuse(d, event, at, wanted);
    if (!json_skip_rest(&d->r, event))
        return reader_failed(d, at);
    if (d->in_exemplar) {
        d->exemplar_bad = true;
    } else if (!d->point_bad) {
        if (!message_mark_defect(d->point, REJECT_VALUE, d->a))
            return no_room(d);
        d->point_bad = true;
    }
    return OTL_OK;
}

static enum otl_err too_deep(struct decoder *d, const struct json_place *at)
{
    struct json_path path;

    json_path_of(at, &path);
    (void)otl_fail(d->err, OTL_EBADDATA,
                   "An attribute value is nested more than %" PRIu32 " levels deep, in %s.",
                   d->lim->max_value_depth, path.s);
    set_field(d, &path);
    return OTL_EBADDATA;
}

static void note(struct decoder *d, enum warning w, struct bytes example)
{
    if (d->notes->warnings[w]++ == 0)
        d->notes->example[w] = example;
}

static enum otl_err note_null_element(struct decoder *d, const struct json_place *at)
{
    struct bytes example = {0};
    struct json_path path;

    if (d->notes->warnings[WARN_NULL_ELEMENT] == 0) {
        json_path_of(at, &path);
        if (!arena_dup(d->a, bytes_of(path.s, path.n), &example))
            return no_room(d);
    }
    note(d, WARN_NULL_ELEMENT, example);
    return OTL_OK;
}

/* ---- fields ---- */

/* NULL for an unknown key. *hint is where the search starts: senders keep one order. */
static const ProtobufCFieldDescriptor *
find_field(struct decoder *d, const ProtobufCMessageDescriptor *desc, unsigned *hint)
{
    struct bytes key = d->r.text;

    for (unsigned i = 0; i < desc->n_fields; i++) {
        unsigned k = (*hint + i) % desc->n_fields;

        if (json_key_is(desc->fields[k].name, key)) {
            *hint = k + 1;
            return &desc->fields[k];
        }
    }
    for (unsigned k = 0; k < desc->n_fields; k++) {
        if (bytes_equal(key, bytes_str(desc->fields[k].name))) {
            if (d->lim->accept_snake_case)
                return &desc->fields[k];
            note(d, WARN_UNKNOWN_KEY, key);
            return NULL;
        }
    }
    return NULL;
}

static void put(ProtobufCMessage *m, unsigned offset, const void *value, size_t n)
{
    memcpy((uint8_t *)m + offset, value, n);
}

static size_t scalar_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

static void set_member(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, const void *value,
                       size_t n)
{
    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
        put(m, f->quantifier_offset, &f->id, sizeof(f->id));
    put(m, f->offset, value, n);
}

static void set_list(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, void *list, size_t n)
{
    put(m, f->quantifier_offset, &n, sizeof(n));
    put(m, f->offset, &list, sizeof(list));
}

/* null: the field is unset. Another member of its oneof is not touched. */
static void clear_member(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    static const union scalar zero;
    static const uint32_t none = 0;
    uint32_t which;

    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        set_list(m, f, NULL, 0);
    } else if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        memcpy(&which, (const uint8_t *)m + f->quantifier_offset, sizeof(which));
        if (which == f->id)
            put(m, f->quantifier_offset, &none, sizeof(none));
    } else if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        put(m, f->offset, &zero, sizeof(void *));
    } else {
        put(m, f->offset, &zero, scalar_size(f->type));
    }
}

/* ---- scalars ---- */

/* What the text of a value of bytes is. All other bytes fields are strings in OTLP, declared
 * string_as_bytes. */
enum bytes_text { TEXT_PLAIN, TEXT_HEX, TEXT_BASE64 };

enum { EXEMPLAR_SPAN_ID = 4, EXEMPLAR_TRACE_ID = 5 };
enum { SPAN_ID_BYTES = 8, TRACE_ID_BYTES = 16, BAD_ID_BYTES = 1 };

static enum bytes_text bytes_text_of(const ProtobufCMessageDescriptor *desc, uint32_t id)
{
    if (desc == &otlp__exemplar__descriptor && (id == EXEMPLAR_SPAN_ID || id == EXEMPLAR_TRACE_ID))
        return TEXT_HEX;
    if (desc == &otlp__any_value__descriptor && id == OTLP__ANY_VALUE__VALUE_BYTES_VALUE)
        return TEXT_BASE64;
    return TEXT_PLAIN;
}

static enum otl_err decode_string(struct decoder *d, union scalar *out)
{
    struct bytes text = d->r.text;

    if (d->r.text_repaired)
        note(d, WARN_SURROGATE, text);
    out->bytes.len = text.n;
    /* protobuf-c's type is not const, but nothing writes through it; an empty field has no data, as
     * after protobuf_c_message_unpack. */
    out->bytes.data = text.n > 0 ? (uint8_t *)(uintptr_t)text.p : NULL;
    return OTL_OK;
}

/* What is not hex of the right length gets a length that no id has: batch_build drops it then, and
 * warns with the metric's name, as it does for protobuf. */
static enum otl_err decode_id(struct decoder *d, uint32_t id, enum json_event event,
                              const struct json_place *at, union scalar *out)
{
    size_t n = id == EXEMPLAR_TRACE_ID ? TRACE_ID_BYTES : SPAN_ID_BYTES;
    struct bytes text = d->r.text;
    bool string = event == JSON_EV_STRING;
    uint8_t *p;

    if (!json_skip_rest(&d->r, event))
        return reader_failed(d, at);
    out->bytes = (ProtobufCBinaryData){0, NULL};
    if (string && text.n == 0)
        return OTL_OK;
    p = arena_zalloc(d->a, 1, n);
    if (p == NULL)
        return no_room(d);
    out->bytes.data = p;
    out->bytes.len = string && text.n == 2 * n && hex_decode(text, p) ? n : BAD_ID_BYTES;
    return OTL_OK;
}

static enum otl_err decode_bytes(struct decoder *d, const ProtobufCMessageDescriptor *desc,
                                 const ProtobufCFieldDescriptor *f, enum json_event event,
                                 const struct json_place *at, union scalar *out, bool *taken)
{
    enum bytes_text kind = bytes_text_of(desc, f->id);
    struct bytes text = d->r.text;
    uint8_t *p;
    size_t n = 0;

    if (kind == TEXT_HEX) {
        *taken = true;
        return decode_id(d, f->id, event, at, out);
    }
    if (event != JSON_EV_STRING)
        return bad_scalar(d, event, at, "a string");
    if (kind == TEXT_PLAIN) {
        *taken = true;
        return decode_string(d, out);
    }
    p = arena_alloc(d->a, text.n / 4 * 3 + 3);
    if (p == NULL)
        return no_room(d);
    if (!base64_decode(text, p, &n))
        return bad_scalar(d, event, at, "a string in base64");
    out->bytes = (ProtobufCBinaryData){n, n > 0 ? p : NULL};
    *taken = true;
    return OTL_OK;
}

/* A number, or a string that holds one and nothing else. */
static bool is_numeric(enum json_event event)
{
    return event == JSON_EV_NUMBER || event == JSON_EV_STRING;
}

static enum json_number parse_double(enum json_event event, struct bytes text, double *out)
{
    if (event == JSON_EV_STRING) {
        if (bytes_equal(text, bytes_str("NaN"))) {
            *out = (double)NAN;
            return JSON_NUMBER_OK;
        }
        if (bytes_equal(text, bytes_str("Infinity"))) {
            *out = (double)INFINITY;
            return JSON_NUMBER_OK;
        }
        if (bytes_equal(text, bytes_str("-Infinity"))) {
            *out = -(double)INFINITY;
            return JSON_NUMBER_OK;
        }
    }
    return json_parse_double(text, out);
}

/* An enum is its number; a name is refused with the number it stands for. */
static enum otl_err decode_enum(struct decoder *d, const ProtobufCEnumDescriptor *desc,
                                enum json_event event, const struct json_place *at,
                                union scalar *out, bool *taken)
{
    struct bytes text = d->r.text;
    char wanted[64] = "an integer (the number of an enum value)";
    int64_t i = 0;

    if (is_numeric(event) && json_parse_signed(text, INT32_MIN, INT32_MAX, &i) == JSON_NUMBER_OK) {
        out->i32 = (int32_t)i;
        *taken = true;
        return OTL_OK;
    }
    for (unsigned k = 0; event == JSON_EV_STRING && k < desc->n_values; k++) {
        if (bytes_equal(text, bytes_str(desc->values[k].name))) {
            (void)snprintf(wanted, sizeof(wanted), "the number %d, for names are not OTLP/JSON",
                           desc->values[k].value);
        }
    }
    return bad_scalar(d, event, at, wanted);
}

/* An attribute's integer outside 64 bits: JavaScript senders write 1e21 as intValue. Its double is
 * kept instead. */
static bool int_as_double(struct decoder *d, union scalar *out)
{
    if (json_parse_double(d->r.text, &out->d) != JSON_NUMBER_OK)
        return false;
    note(d, WARN_INT_AS_DOUBLE, d->r.text);
    return true;
}

/* The scalar that began with event, for field f of desc. *as is the field that it belongs to: f, or
 * NULL when there is nothing to store, or AnyValue's double_value for an integer too large. */
static enum otl_err decode_scalar(struct decoder *d, const ProtobufCMessageDescriptor *desc,
                                  const ProtobufCFieldDescriptor *f, enum json_event event,
                                  const struct json_place *at, union scalar *out,
                                  const ProtobufCFieldDescriptor **as)
{
    const char *wanted = "a number";
    enum json_number parsed = JSON_NUMBER_SYNTAX;
    bool taken = false;
    enum otl_err rc = OTL_OK;
    int64_t i = 0;
    uint64_t u = 0;

    *as = NULL;
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        wanted = "an integer from -2147483648 to 2147483647";
        if (is_numeric(event))
            parsed = json_parse_signed(d->r.text, INT32_MIN, INT32_MAX, &i);
        out->i32 = (int32_t)i;
        break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        wanted = "an integer from 0 to 4294967295";
        if (is_numeric(event))
            parsed = json_parse_unsigned(d->r.text, UINT32_MAX, &u);
        out->u32 = (uint32_t)u;
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        wanted = "an integer from -9223372036854775808 to 9223372036854775807";
        if (is_numeric(event))
            parsed = json_parse_signed(d->r.text, INT64_MIN, INT64_MAX, &out->i64);
        if (parsed == JSON_NUMBER_RANGE && desc == &otlp__any_value__descriptor &&
            int_as_double(d, out)) {
            *as =
                protobuf_c_message_descriptor_get_field(desc, OTLP__ANY_VALUE__VALUE_DOUBLE_VALUE);
            return OTL_OK;
        }
        break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        wanted = "an integer from 0 to 18446744073709551615";
        if (is_numeric(event))
            parsed = json_parse_unsigned(d->r.text, UINT64_MAX, &out->u64);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        wanted = "a number within the range of a double, \"NaN\", \"Infinity\" or \"-Infinity\"";
        if (is_numeric(event))
            parsed = parse_double(event, d->r.text, &out->d);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        wanted = "true or false";
        if (event == JSON_EV_TRUE || event == JSON_EV_FALSE)
            parsed = JSON_NUMBER_OK;
        out->b = event == JSON_EV_TRUE;
        break;
    case PROTOBUF_C_TYPE_ENUM:
        rc = decode_enum(d, f->descriptor, event, at, out, &taken);
        *as = taken ? f : NULL;
        return rc;
    case PROTOBUF_C_TYPE_BYTES:
        rc = decode_bytes(d, desc, f, event, at, out, &taken);
        *as = taken ? f : NULL;
        return rc;
    default:
        return otl_fail(d->err, OTL_EINTERNAL, "The field %s has a type that JSON cannot set.",
                        f->name);
    }
    if (parsed != JSON_NUMBER_OK)
        return bad_scalar(d, event, at, wanted);
    *as = f;
    return OTL_OK;
}

/* ---- lists ---- */

struct list {
    void *p;
    size_t n, cap; /* in elements */
    size_t size;   /* bytes of an element */
    size_t hint;   /* first capacity */
};

/* The arena takes nothing back, so growing by doubling holds up to three times what is used; a good
 * hint avoids that. */
static bool list_add(struct decoder *d, struct list *l, const void *element)
{
    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? l->hint : l->cap * 2;
        void *p;

        if (cap > SIZE_MAX / 4 / l->size)
            return false;
        p = arena_alloc(d->a, cap * l->size);
        if (p == NULL)
            return false;
        if (l->n > 0)
            memcpy(p, l->p, l->n * l->size);
        l->p = p;
        l->cap = cap;
    }
    memcpy((uint8_t *)l->p + l->n * l->size, element, l->size);
    l->n++;
    return true;
}

/* The elements of a repeated scalar; its '[' has been read. */
static enum otl_err decode_scalars(struct decoder *d, ProtobufCMessage *m,
                                   const ProtobufCFieldDescriptor *f, struct json_place *here)
{
    struct list list = {.size = scalar_size(f->type), .hint = 4};

    /* One zero of an empty bucket is two bytes of JSON and eight in memory: with doubling on top,
     * honest histograms would meet the budget. Strings may hold commas, so no hint for them. */
    if (f->type != PROTOBUF_C_TYPE_BYTES)
        list.hint = json_count_scalars(&d->r);
    for (here->index = 0;; here->index++) {
        enum json_event event = json_next(&d->r);
        const ProtobufCFieldDescriptor *as;
        union scalar value;
        enum otl_err rc;

        if (event == JSON_EV_ARRAY_END)
            break;
        if (event == JSON_EV_NULL && f->type == PROTOBUF_C_TYPE_BYTES) {
            rc = note_null_element(d, here);
            if (rc != OTL_OK)
                return rc;
            continue;
        }
        rc = decode_scalar(d, m->descriptor, f, event, here, &value, &as);
        if (rc != OTL_OK)
            return rc;
        if (as != NULL && !list_add(d, &list, &value))
            return no_room(d);
    }
    set_list(m, f, list.p, list.n);
    return OTL_OK;
}

static bool is_point(const ProtobufCMessageDescriptor *desc)
{
    return desc == &otlp__number_data_point__descriptor ||
           desc == &otlp__histogram_data_point__descriptor ||
           desc == &otlp__exponential_histogram_data_point__descriptor ||
           desc == &otlp__summary_data_point__descriptor;
}

static void exemplar_unset_value(ProtobufCMessage *m)
{
    clear_member(
        m, protobuf_c_message_descriptor_get_field(m->descriptor, OTLP__EXEMPLAR__VALUE_AS_DOUBLE));
    clear_member(
        m, protobuf_c_message_descriptor_get_field(m->descriptor, OTLP__EXEMPLAR__VALUE_AS_INT));
}

/* A new message, from the object whose '{' has been read, or empty for null (event says which). */
static enum otl_err decode_new(struct decoder *d, const ProtobufCMessageDescriptor *desc,
                               enum json_event event, const struct json_place *at,
                               ProtobufCMessage **out)
{
    bool value =
        desc == &otlp__array_value__descriptor || desc == &otlp__key_value_list__descriptor;
    bool point = is_point(desc);
    bool exemplar = desc == &otlp__exemplar__descriptor;
    ProtobufCMessage *m;
    enum otl_err rc = OTL_OK;

    if (value && d->value_depth >= d->lim->max_value_depth)
        return too_deep(d, at);
    m = arena_alloc(d->a, desc->sizeof_message);
    if (m == NULL)
        return no_room(d);
    desc->message_init(m);
    d->value_depth += value;
    if (point) {
        d->point = m;
        d->point_bad = false;
    }
    if (exemplar) {
        d->in_exemplar = true;
        d->exemplar_bad = false;
    }
    if (event == JSON_EV_OBJECT)
        rc = decode_message(d, m, at);
    d->value_depth -= value;
    if (point)
        d->point = NULL;
    if (exemplar) {
        /* Without a value it is dropped, with a warning, by batch_build. */
        if (d->exemplar_bad)
            exemplar_unset_value(m);
        d->in_exemplar = false;
    }
    *out = m;
    return rc;
}

/* The elements of a repeated message; its '[' has been read. */
static enum otl_err decode_messages(struct decoder *d, ProtobufCMessage *m,
                                    const ProtobufCFieldDescriptor *f, struct json_place *here)
{
    struct list list = {.size = sizeof(ProtobufCMessage *), .hint = 4};

    for (here->index = 0;; here->index++) {
        enum json_event event = json_next(&d->r);
        ProtobufCMessage *element = NULL;
        enum otl_err rc;

        if (event == JSON_EV_ARRAY_END)
            break;
        if (event == JSON_EV_NULL && f->descriptor != &otlp__any_value__descriptor) {
            rc = note_null_element(d, here);
            if (rc != OTL_OK)
                return rc;
            continue;
        }
        if (event != JSON_EV_OBJECT && event != JSON_EV_NULL)
            return refuse(d, event, here, "an object");
        rc = decode_new(d, f->descriptor, event, here, &element);
        if (rc != OTL_OK)
            return rc;
        if (!list_add(d, &list, &element))
            return no_room(d);
    }
    set_list(m, f, list.p, list.n);
    return OTL_OK;
}

/* ---- messages ---- */

static enum otl_err decode_field(struct decoder *d, ProtobufCMessage *m,
                                 const ProtobufCFieldDescriptor *f, const struct json_place *at)
{
    struct json_place here = {at, f->name, JSON_NO_INDEX};
    enum json_event event = json_next(&d->r);
    const ProtobufCFieldDescriptor *as;
    union scalar value;
    enum otl_err rc;

    if (event == JSON_EV_NULL) {
        clear_member(m, f);
        return OTL_OK;
    }
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        if (event != JSON_EV_ARRAY)
            return refuse(d, event, &here, "an array");
        if (f->type == PROTOBUF_C_TYPE_MESSAGE)
            return decode_messages(d, m, f, &here);
        return decode_scalars(d, m, f, &here);
    }
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        ProtobufCMessage *child = NULL;

        if (event != JSON_EV_OBJECT)
            return refuse(d, event, &here, "an object");
        rc = decode_new(d, f->descriptor, event, &here, &child);
        if (rc == OTL_OK)
            set_member(m, f, &child, sizeof(child));
        return rc;
    }
    rc = decode_scalar(d, m->descriptor, f, event, &here, &value, &as);
    if (rc == OTL_OK && as != NULL)
        set_member(m, as, &value, scalar_size(as->type));
    return rc;
}

/* The members of m; its '{' has been read. */
static enum otl_err decode_message(struct decoder *d, ProtobufCMessage *m,
                                   const struct json_place *at)
{
    unsigned hint = 0;

    for (;;) {
        enum json_event event = json_next(&d->r);
        const ProtobufCFieldDescriptor *f;
        enum otl_err rc;

        if (event == JSON_EV_OBJECT_END)
            return OTL_OK;
        if (event != JSON_EV_KEY)
            return reader_failed(d, at);
        f = find_field(d, m->descriptor, &hint);
        if (f == NULL) {
            if (!json_skip_value(&d->r))
                return reader_failed(d, at);
            continue;
        }
        rc = decode_field(d, m, f, at);
        if (rc != OTL_OK)
            return rc;
    }
}

/* JSON levels that a body may need: a level of kvlist takes four, the envelope 15 (down to an
 * exemplar's attribute). At least 300, so that unknown keys may hold something. */
static uint32_t json_depth(const struct decode_limits *lim)
{
    enum { ENVELOPE = 16, A_VALUE = 4, LEAST = 300 };
    uint32_t values = lim->max_value_depth;

    if (values > (JSON_DEPTH_CAP - ENVELOPE) / A_VALUE)
        return JSON_DEPTH_CAP;
    return values * A_VALUE + ENVELOPE > LEAST ? values * A_VALUE + ENVELOPE : LEAST;
}

enum otl_err decode_json(struct bytes body, const struct decode_limits *lim, struct arena *a,
                         otlp_request **out, struct decode_notes *notes, struct otl_error *err)
{
    struct decoder d = {.lim = lim, .a = a, .notes = notes, .err = err};
    struct json_place top = {NULL, "", JSON_NO_INDEX};
    ProtobufCMessage *m = NULL;
    enum json_event event;
    enum otl_err rc;

    *notes = (struct decode_notes){0};
    json_reader_init(&d.r, body, json_depth(lim), a);
    event = json_next(&d.r);
    if (event != JSON_EV_OBJECT)
        return refuse(&d, event, &top, "an object (ExportMetricsServiceRequest)");
    rc = decode_new(&d, &otlp__export_metrics_service_request__descriptor, event, &top, &m);
    if (rc != OTL_OK)
        return rc;
    if (json_next(&d.r) != JSON_EV_END)
        return reader_failed(&d, &top);
    *out = (otlp_request *)(void *)m;
    return OTL_OK;
}
