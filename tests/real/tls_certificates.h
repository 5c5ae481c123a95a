/* Certificates for the TLS tests, which openssl(1) makes at run time in a directory of the test. */
#ifndef TESTS_REAL_TLS_CERTIFICATES_H
#define TESTS_REAL_TLS_CERTIFICATES_H

#include "support/cluster.h"

/* Makes the directory, and an authority of this name, "authority". The directory is removed at the end of the test. */
void certificates_begin(void);

/* The path of a file in the directory; valid until the end of the test. */
const char *certificates_path(const char *file);

/* Runs a shell command in the directory. Ends the test if it fails. */
void certificates_run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Makes NAME.pem and NAME.key. issuer: the authority's name; NULL: an authority with a self-signed certificate. names: the
 * alternative names, "IP:127.0.0.1,DNS:localhost"; NULL for none. days: how long it is valid; 0: it has expired. */
void certificates_make(const char *name, const char *issuer, const char *names, int days);

/* The same for a server that requests no certificate from its clients. They must have one of "authority" otherwise. */
struct cluster_tls certificates_server(const char *name, const char *issuer, const char *names, int days);

/* The list of the running test's nodes, at this host: "rediss://127.0.0.1:4711,..."; valid until the next call. */
const char *certificates_nodes(const char *host);

#endif
