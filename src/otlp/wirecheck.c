/* wirecheck.c -- is this body safe to hand to protobuf-c?
 *
 * One pass over the wire bytes, driven by the generated descriptors, with a stack of its own: the
 * depth of a body costs frames in a fixed array, never C recursion. Submessages are entered only
 * where the descriptor knows them; unknown fields are bytes to skip, however deep they nest.
 *
 * The rules are as strict as protobuf-c's or stricter, so that both cut a body into the same
 * fields: a tag and a length have at most five bytes, a varint ten, field number 0 and groups are
 * refused, and so is a known field with a foreign wire type (B-8). What passes here can fail in
 * protobuf-c for want of memory only (test_wirecheck holds the two against each other). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "message.h"
#include "wire.h"

enum {
    /* request, resource, scope, metric, data, point, exemplar, pair: 8 messages above an attribute
     * value; three more a level (value, list, pair) for the 200 levels that the configuration
     * allows at most. protobuf-c needs about 1 KB of C stack for each. */
    MAX_MESSAGES = 8 + 3 * 200 + 8,
    /* protobuf-c notes each field of a message before it parses them: the first ones on its stack,
     * the others in this many bytes of memory each. */
    PARSED_ON_STACK = 16,
    PARSED_BYTES = 24
};

struct frame {
    const ProtobufCMessageDescriptor *desc;
    const ProtobufCFieldDescriptor *via; /* the parent's field that holds this one; NULL on top */
    const uint8_t *tag;                  /* where that field starts in the parent */
    const uint8_t *start, *end;          /* the message itself */
    unsigned hint;                       /* index of the field seen last: the next is near */
    uint32_t values; /* arrays and kvlists from the top to here, this included */
    uint32_t fields; /* seen so far; stops at PARSED_ON_STACK */
};

struct walk {
    const uint8_t *body;
    const uint8_t *p;
    const uint8_t *tag; /* start of the field at hand */
    struct frame *top;
    const struct decode_limits *lim;
    struct otl_error *err;
    size_t least; /* bytes that protobuf-c is going to ask for, at least */
    struct frame frames[MAX_MESSAGES];
};

/* --- what to say about a bad one ------------------------------------------------------------ */

struct path {
    char *s;
    size_t n, cap;
};

/* A whole segment or nothing: a cut path still names an enclosing message. */
static bool path_add(struct path *path, const ProtobufCFieldDescriptor *field, const size_t *index)
{
    char segment[96];
    size_t n = 0;
    bool upper = false;

    if (path->n > 0)
        segment[n++] = '.';
    for (const char *c = field->name; *c != '\0' && n < sizeof(segment) - 32; c++) {
        if (*c == '_') {
            upper = true;
            continue;
        }
        segment[n++] = upper && *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
        upper = false;
    }
    if (index != NULL)
        n += (size_t)snprintf(segment + n, sizeof(segment) - n, "[%zu]", *index);
    if (n >= path->cap - path->n)
        return false;
    memcpy(path->s + path->n, segment, n);
    path->n += n;
    path->s[path->n] = '\0';
    return true;
}

/* How many fields with this number lie in the message before the one at stop. All of them have
 * passed the check already, so this re-reads rather than have every good body count. */
static size_t count_before(const struct frame *f, uint32_t number, const uint8_t *stop)
{
    const uint8_t *p = f->start;
    size_t n = 0;

    while (p < stop) {
        uint64_t v = 0;
        uint32_t at = 0;
        unsigned wire = 0;

        if (!read_tag(&p, stop, &at, &wire))
            break;
        if (wire == WIRE_VARINT) {
            if (!skip_varint(&p, stop))
                break;
        } else {
            v = wire == WIRE_64 ? 8 : 4;
            if (wire == WIRE_LENGTH && !read_length(&p, stop, &v))
                break;
            if (v > (uint64_t)(stop - p))
                break;
            p += v;
        }
        n += at == number;
    }
    return n;
}

/* An index for what is repeated, unless runs of packed numbers make counting fields pointless. */
static bool path_step(struct path *path, const struct frame *parent,
                      const ProtobufCFieldDescriptor *field, const uint8_t *tag)
{
    size_t index;

    if (field->label != PROTOBUF_C_LABEL_REPEATED ||
        (field->type != PROTOBUF_C_TYPE_MESSAGE && field->type != PROTOBUF_C_TYPE_STRING &&
         field->type != PROTOBUF_C_TYPE_BYTES))
        return path_add(path, field, NULL);
    index = count_before(parent, field->id, tag);
    return path_add(path, field, &index);
}

static void name_field(struct walk *w, const ProtobufCFieldDescriptor *field)
{
    struct path path = {w->err->field, 0, sizeof(w->err->field)};
    const struct frame *f;

    for (f = w->frames + 1; f <= w->top; f++) {
        if (!path_step(&path, f - 1, f->via, f->tag))
            return;
    }
    if (field != NULL)
        (void)path_step(&path, w->top, field, w->tag);
}

OTL_PRINTF(3, 4)
static enum otl_err bad(struct walk *w, const ProtobufCFieldDescriptor *field, const char *fmt, ...)
{
    char what[256];
    va_list ap;

    if (w->err == NULL)
        return OTL_EBADDATA;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    (void)otl_fail(w->err, OTL_EBADDATA, "The protobuf body is bad at byte %zu, in %s: %s",
                   (size_t)(w->tag - w->body), w->top->desc->short_name, what);
    name_field(w, field);
    return OTL_EBADDATA;
}

static enum otl_err bad_field(struct walk *w, const ProtobufCFieldDescriptor *field,
                              uint32_t number)
{
    return bad(w, field,
               "field %" PRIu32 " is cut short or has a length that does not fit. The body must be "
               "one whole ExportMetricsServiceRequest.",
               number);
}

/* --- the walk ------------------------------------------------------------------------------- */

static inline const ProtobufCFieldDescriptor *find_field(struct frame *f, uint32_t number)
{
    const ProtobufCFieldDescriptor *fields = f->desc->fields;
    const ProtobufCFieldDescriptor *field;
    unsigned i = f->hint;

    /* Senders write fields in order, and repeated ones in a row. */
    if (i < f->desc->n_fields && fields[i].id == number)
        return &fields[i];
    if (i + 1 < f->desc->n_fields && fields[i + 1].id == number) {
        f->hint = i + 1;
        return &fields[i + 1];
    }
    field = protobuf_c_message_descriptor_get_field(f->desc, number);
    if (field != NULL)
        f->hint = (unsigned)(field - fields);
    return field;
}

static enum wire wire_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return WIRE_LENGTH;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_BOOL:
        break;
    }
    return WIRE_VARINT;
}

/* A run of numbers under one length: whole ones only. */
static bool packed_whole(enum wire element, const uint8_t *p, const uint8_t *end)
{
    if (element == WIRE_64)
        return (end - p) % 8 == 0;
    if (element == WIRE_32)
        return (end - p) % 4 == 0;
    while (p < end) {
        if (!skip_varint(&p, end))
            return false;
    }
    return true;
}

static enum otl_err enter(struct walk *w, const ProtobufCFieldDescriptor *field, size_t n)
{
    const struct frame *parent = w->top;
    struct frame *f = w->top + 1;
    const ProtobufCMessageDescriptor *desc = field->descriptor;
    /* Arrays and kvlists make the levels; a leaf inside the last one allowed is fine. */
    uint32_t values = parent->values + (desc == &otlp__array_value__descriptor ||
                                        desc == &otlp__key_value_list__descriptor);

    if (values > w->lim->max_value_depth)
        return bad(w, field,
                   "an attribute value is nested more than %" PRIu32
                   " levels deep (otlp.max_depth). Flatten it.",
                   w->lim->max_value_depth);
    if (f == w->frames + MAX_MESSAGES)
        return bad(w, field, "messages are nested more than %d deep. Flatten attribute values.",
                   (int)MAX_MESSAGES);
    *f = (struct frame){desc, field, w->tag, w->p, w->p + n, 0, values, 0};
    w->top = f;
    w->least += desc->sizeof_message;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        w->least += sizeof(void *);
    return OTL_OK;
}

/* An unknown field is kept, with its bytes. */
static void count_field(struct walk *w, struct frame *f, const ProtobufCFieldDescriptor *field)
{
    if (f->fields < PARSED_ON_STACK)
        f->fields++;
    else
        w->least += PARSED_BYTES;
    if (field == NULL)
        w->least += sizeof(ProtobufCMessageUnknownField) + 1;
}

static enum otl_err check_length(struct walk *w, const ProtobufCFieldDescriptor *field,
                                 uint32_t number)
{
    const uint8_t *end = w->top->end;
    enum wire expected;
    uint64_t n;

    if (!read_length(&w->p, end, &n) || n > (uint64_t)(end - w->p))
        return bad_field(w, field, number);
    if (field != NULL) {
        expected = wire_of(field->type);
        if (field->type == PROTOBUF_C_TYPE_MESSAGE)
            return enter(w, field, (size_t)n);
        if (expected != WIRE_LENGTH && !packed_whole(expected, w->p, w->p + n))
            return bad(w, field, "the packed numbers of field %" PRIu32 " end within one.", number);
    }
    w->p += n;
    return OTL_OK;
}

/* One field, from its tag on. A submessage is entered; its fields come next. */
static enum otl_err check_field(struct walk *w)
{
    struct frame *f = w->top;
    const ProtobufCFieldDescriptor *field;
    uint32_t number;
    unsigned wire;

    w->tag = w->p;
    if (!read_tag(&w->p, f->end, &number, &wire))
        return bad(w, NULL,
                   "a field tag is cut short or too long. The body must be one whole "
                   "ExportMetricsServiceRequest.");
    if (number == 0)
        return bad(w, NULL,
                   "field number 0 is never valid. Check that the sender writes an "
                   "ExportMetricsServiceRequest.");
    field = find_field(f, number);
    count_field(w, f, field);
    if (field != NULL && wire != (unsigned)wire_of(field->type) &&
        !(wire == WIRE_LENGTH && field->label == PROTOBUF_C_LABEL_REPEATED))
        return bad(w, field,
                   "field %" PRIu32 " has wire type %u, which does not fit its type. Check that "
                   "the sender writes an ExportMetricsServiceRequest.",
                   number, wire);
    switch (wire) {
    case WIRE_VARINT:
        return skip_varint(&w->p, f->end) ? OTL_OK : bad_field(w, field, number);
    case WIRE_64:
    case WIRE_32: {
        ptrdiff_t n = wire == WIRE_64 ? 8 : 4;

        if (f->end - w->p < n)
            return bad_field(w, field, number);
        w->p += n;
        return OTL_OK;
    }
    case WIRE_LENGTH:
        return check_length(w, field, number);
    default:
        return bad(w, field,
                   "field %" PRIu32 " has wire type %u; groups are not part of OTLP. Check that "
                   "the sender writes an ExportMetricsServiceRequest.",
                   number, wire);
    }
}

enum otl_err wirecheck(struct bytes body, const struct decode_limits *lim, struct otl_error *err)
{
    size_t least;

    return wirecheck_size(body, lim, &least, err);
}

enum otl_err wirecheck_size(struct bytes body, const struct decode_limits *lim, size_t *least,
                            struct otl_error *err)
{
    static const uint8_t nothing[1];
    struct walk w;

    /* frames stay uninitialised: 30 KB that a usual body uses eight entries of. */
    w.body = body.n > 0 ? body.p : nothing;
    w.p = w.body;
    w.tag = w.body;
    w.top = w.frames;
    w.lim = lim;
    w.err = err;
    w.least = otlp__export_metrics_service_request__descriptor.sizeof_message;
    w.frames[0] = (struct frame){
        .desc = &otlp__export_metrics_service_request__descriptor,
        .tag = w.body,
        .start = w.body,
        .end = w.body + body.n,
    };
    for (;;) {
        if (w.p == w.top->end) {
            if (w.top == w.frames) {
                *least = w.least;
                return OTL_OK;
            }
            w.top--;
        } else {
            enum otl_err rc = check_field(&w);

            if (rc != OTL_OK)
                return rc;
        }
    }
}
