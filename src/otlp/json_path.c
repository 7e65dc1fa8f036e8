/* json_path.c -- paths, keys and words for the messages of the JSON decoder. */
#include "otlp/json_path.h"

#include <stdio.h>

static void path_char(struct json_path *path, char c)
{
    if (path->n < sizeof(path->s) - 1)
        path->s[path->n++] = c;
    else
        memcpy(path->s + path->n - 3, "...", 3);
    path->s[path->n] = '\0';
}

/* name as its JSON key: the letter behind an underscore becomes a capital. */
static void path_key(struct json_path *path, const char *name)
{
    for (; *name != '\0'; name++) {
        if (name[0] == '_' && name[1] >= 'a' && name[1] <= 'z') {
            path_char(path, (char)(name[1] - 'a' + 'A'));
            name++;
        } else {
            path_char(path, *name);
        }
    }
}

void json_path_of(const struct json_place *at, struct json_path *out)
{
    const struct json_place *chain[JSON_DEPTH_CAP];
    size_t n = 0;

    out->n = 0;
    out->s[0] = '\0';
    for (; at->up != NULL && n < sizeof(chain) / sizeof(chain[0]); at = at->up)
        chain[n++] = at;
    while (n > 0) {
        const struct json_place *p = chain[--n];

        if (out->n > 0)
            path_char(out, '.');
        path_key(out, p->name);
        if (p->index != JSON_NO_INDEX) {
            char index[24];

            (void)snprintf(index, sizeof(index), "[%zu]", p->index);
            for (const char *c = index; *c != '\0'; c++)
                path_char(out, *c);
        }
    }
}

bool json_key_is(const char *name, struct bytes key)
{
    size_t i = 0;

    for (; *name != '\0'; name++, i++) {
        uint8_t c = (uint8_t)*name;

        if (c == '_' && name[1] >= 'a' && name[1] <= 'z') {
            name++;
            c = (uint8_t)(*name - 'a' + 'A');
        }
        if (i >= key.n || key.p[i] != c)
            return false;
    }
    return i == key.n;
}

void json_describe(enum json_event event, struct bytes text, char *out, size_t cap)
{
    bool show = text.n > 0 && text.n <= 64;

    for (size_t i = 0; show && i < text.n; i++)
        show = text.p[i] >= 0x20 && text.p[i] < 0x7f && text.p[i] != '"' && text.p[i] != '\\';
    switch (event) {
    case JSON_EV_OBJECT:
        (void)snprintf(out, cap, "an object");
        break;
    case JSON_EV_ARRAY:
        (void)snprintf(out, cap, "an array");
        break;
    case JSON_EV_STRING:
        if (show)
            (void)snprintf(out, cap, "the string \"%.*s\"", (int)text.n, (const char *)text.p);
        else
            (void)snprintf(out, cap, text.n == 0 ? "an empty string" : "a string");
        break;
    case JSON_EV_NUMBER:
        if (show)
            (void)snprintf(out, cap, "the number %.*s", (int)text.n, (const char *)text.p);
        else
            (void)snprintf(out, cap, "a number");
        break;
    case JSON_EV_TRUE:
        (void)snprintf(out, cap, "true");
        break;
    case JSON_EV_FALSE:
        (void)snprintf(out, cap, "false");
        break;
    default:
        (void)snprintf(out, cap, "null");
        break;
    }
}
