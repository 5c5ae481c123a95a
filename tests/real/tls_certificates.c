#include "real/tls_certificates.h"

#include "real/held.h"
#include "support/file.h"
#include "support/fixture.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static const char *directory;

void certificates_begin(void)
{
    directory = temp_dir_path(temp_dir_make());
    certificates_make("authority", NULL, NULL, 365);
}

const char *certificates_path(const char *file)
{
    char *path = fixture_text("%s/%s", directory, file);
    fixture_register(path, free);
    return path;
}

void certificates_run(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char *command = fixture_text("cd '%s' && %s >/dev/null 2>&1", directory, text);
    if (system(command) != 0)
        fixture_fail("certificates: this fails: %s", command);
    free(command);
}

void certificates_make(const char *name, const char *issuer, const char *names, int days)
{
    bool has_names = names && names[0];
    char *request = fixture_text("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout %s.key "
                                 "-subj /CN=%s %s%s",
                                 name, name, has_names ? "-addext subjectAltName=" : "", has_names ? names : "");
    if (!issuer) {
        certificates_run("%s -x509 -days %d -out %s.pem", request, days, name);
    } else {
        certificates_run("%s -new -out request.pem", request);
        certificates_run(
            "openssl x509 -req -in request.pem -copy_extensions copy -CA %s.pem -CAkey %s.key -days %d -out "
            "%s.pem",
            issuer, issuer, days, name);
    }
    free(request);
}

struct cluster_tls certificates_server(const char *name, const char *issuer, const char *names, int days)
{
    char file[64];
    certificates_make(name, issuer, names, days);
    snprintf(file, sizeof file, "%s.pem", name);
    const char *certificate = certificates_path(file);
    snprintf(file, sizeof file, "%s.key", name);
    return (struct cluster_tls){certificate, certificates_path(file), certificates_path("authority.pem"), false};
}

const char *certificates_nodes(const char *host)
{
    static char text[512];
    size_t used = 0;
    for (size_t i = 0; i < cluster_size(cluster); i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%srediss://%s:%u", i > 0 ? "," : "", host,
                                 cluster_port(cluster, i));
    return text;
}
