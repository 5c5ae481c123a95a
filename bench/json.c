#include "json.h"

#include <math.h>

static void print_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            fprintf(file, "\\%c", byte);
        else if (byte < ' ')
            fprintf(file, "\\u%04x", byte);
        else
            fputc(byte, file);
    }
    fputc('"', file);
}

static void begin_member(struct json *json, const char *key)
{
    fputs(json->started ? ",\n" : "\n", json->file);
    json->started = true;
    if (!key)
        return;
    print_text(json->file, key);
    fputs(": ", json->file);
}

void json_open(struct json *json, const char *key, char bracket)
{
    begin_member(json, key);
    fputc(bracket, json->file);
    json->started = false;
}

void json_close(struct json *json, char bracket)
{
    fprintf(json->file, "\n%c", bracket);
    json->started = true;
}

void json_text(struct json *json, const char *key, const char *text)
{
    begin_member(json, key);
    print_text(json->file, text);
}

void json_number(struct json *json, const char *key, double number)
{
    begin_member(json, key);
    if (isfinite(number))
        fprintf(json->file, "%.10g", number);
    else
        fputs("null", json->file);
}
