/* Certificates for the TLS tests, created at run time: an authority, and certificates that it or another authority
 * signs. */
#ifndef TESTS_REAL_TLS_CERTIFICATES_H
#define TESTS_REAL_TLS_CERTIFICATES_H

#include <openssl/evp.h>
#include <openssl/x509.h>

struct identity {
    X509 *certificate;
    EVP_PKEY *key;
};

/* issuer NULL: an authority with a self-signed certificate. names: the alternative names,
 * "IP:127.0.0.1,DNS:localhost"; NULL for none. days: how long the certificate is valid; negative: how long ago it
 * expired. fixtures_end() frees the identity. */
const struct identity *identity_make(const struct identity *issuer, const char *common_name, const char *names,
                                     int days);

/* Write PEM files. */
void identity_write_certificate(const struct identity *identity, const char *path);
void identity_write_key(const struct identity *identity, const char *path, const char *passphrase);

/* The file name of an authority in a directory of authorities, "1234abcd.0". */
void identity_hashed_name(const struct identity *identity, char name[16]);

#endif
