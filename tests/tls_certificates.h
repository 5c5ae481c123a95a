/* Certificates for the tests of TLS, made on the spot: an authority, and what it or another one vouches for. */
#ifndef TESTS_TLS_CERTIFICATES_H
#define TESTS_TLS_CERTIFICATES_H

#include <openssl/evp.h>
#include <openssl/x509.h>

struct identity {
    X509 *certificate;
    EVP_PKEY *key;
};

/* issuer NULL: an authority, signed by itself. names: as in "IP:127.0.0.1,DNS:localhost", NULL for none. days: how long
 * it is valid; below zero: it expired so long ago. Registers itself for fixtures_end(). */
const struct identity *identity_make(const struct identity *issuer, const char *common_name, const char *names,
                                     int days);

/* PEM files. */
void identity_write_certificate(const struct identity *identity, const char *path);
void identity_write_key(const struct identity *identity, const char *path, const char *passphrase);

/* What an authority's file is called in a directory of authorities, "1234abcd.0". */
void identity_hashed_name(const struct identity *identity, char name[16]);

#endif
