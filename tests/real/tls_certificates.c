#include "real/tls_certificates.h"

#include "support/fixture.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DAY_S = 86400, THIRD_VERSION = 2 };

static void must(bool done, const char *what)
{
    if (!done)
        fixture_fail("certificates: cannot %s", what);
}

static void destroy(void *object)
{
    struct identity *identity = object;
    X509_free(identity->certificate);
    EVP_PKEY_free(identity->key);
    free(identity);
}

static EVP_PKEY *make_key(void)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
    must(context != NULL && EVP_PKEY_keygen_init(context) == 1 &&
             EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1) == 1 &&
             EVP_PKEY_keygen(context, &key) == 1,
         "make a key");
    EVP_PKEY_CTX_free(context);
    return key;
}

static void set_name(X509 *certificate, const char *common_name)
{
    X509_NAME *name = X509_get_subject_name(certificate);
    must(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common_name, -1, -1, 0) == 1,
         "set a name");
}

static void add_extension(X509 *certificate, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    must(extension != NULL && X509_add_ext(certificate, extension, -1) == 1, "add an extension");
    X509_EXTENSION_free(extension);
}

static void set_period(X509 *certificate, int days)
{
    X509_gmtime_adj(X509_getm_notBefore(certificate), -100L * DAY_S);
    X509_gmtime_adj(X509_getm_notAfter(certificate), (long)days * DAY_S);
}

const struct identity *identity_make(const struct identity *issuer, const char *common_name, const char *names,
                                     int days)
{
    static long serial;
    struct identity *identity = fixture_allocate(sizeof *identity);
    X509 *certificate = X509_new();
    *identity = (struct identity){.certificate = certificate, .key = make_key()};
    fixture_register(identity, destroy);
    issuer = issuer != NULL ? issuer : identity;
    must(certificate != NULL && X509_set_version(certificate, THIRD_VERSION) == 1, "begin");
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    set_name(certificate, common_name);
    set_period(certificate, days);
    must(X509_set_issuer_name(certificate, X509_get_subject_name(issuer->certificate)) == 1, "set the issuer");
    must(X509_set_pubkey(certificate, identity->key) == 1, "set the key");
    if (issuer == identity)
        add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
    if (names != NULL)
        add_extension(certificate, NID_subject_alt_name, names);
    must(X509_sign(certificate, issuer->key, EVP_sha256()) > 0, "sign");
    return identity;
}

static FILE *open_file(const char *path)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        fixture_fail("certificates: cannot write %s", path);
    return file;
}

void identity_write_certificate(const struct identity *identity, const char *path)
{
    FILE *file = open_file(path);
    must(PEM_write_X509(file, identity->certificate) == 1, "write a certificate");
    fclose(file);
}

void identity_write_key(const struct identity *identity, const char *path, const char *passphrase)
{
    FILE *file = open_file(path);
    const EVP_CIPHER *cipher = passphrase != NULL ? EVP_aes_128_cbc() : NULL;
    int length = passphrase != NULL ? (int)strlen(passphrase) : 0;
    must(PEM_write_PKCS8PrivateKey(file, identity->key, cipher, passphrase, length, NULL, NULL) == 1, "write a key");
    fclose(file);
}

void identity_hashed_name(const struct identity *identity, char name[16])
{
    snprintf(name, 16, "%08lx.0", X509_subject_name_hash(identity->certificate));
}
