#include "src/link/tls.h"

#include "src/core/result.h"

#ifdef REDLOCK_WITH_TLS

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "src/core/core.h"
#include "src/link/address.h"

struct rl_tls {
    SSL_CTX *context;
    const struct rl_core *core;
    const redlock_options *options; /* the core's */
    uint64_t version;               /* of the files in the context */
};

/* ------------------------------------------------------------------------------------------- certificates and keys */

static const char *reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return text ? text : "no reason from OpenSSL";
}

/* OpenSSL's error for a missing file does not name the file. */
static int check_readable(const char *option, const char *path, redlock_result *result)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return rl_result_fail(result, REDLOCK_INVALID, "%s: cannot read '%s': %s; it must be the path of a PEM file",
                              option, path, strerror(errno));
    fclose(file);
    return REDLOCK_OK;
}

static bool is_hashed_name(const char *name)
{
    return strspn(name, "0123456789abcdef") == 8 && name[8] == '.' && strspn(name + 9, "0123456789") > 0;
}

/* OpenSSL reads the directory only to verify a certificate, and then reports only that it found no issuer. */
static int check_directory(const char *path, redlock_result *result)
{
    bool found = false;
    DIR *directory = opendir(path);
    if (!directory)
        return rl_result_fail(result, REDLOCK_INVALID, "tls_ca_directory: cannot read '%s': %s; it must be a directory",
                              path, strerror(errno));
    for (const struct dirent *entry = readdir(directory); entry && !found; entry = readdir(directory))
        found = is_hashed_name(entry->d_name);
    closedir(directory);
    return found
               ? REDLOCK_OK
               : rl_result_fail(result, REDLOCK_INVALID,
                                "tls_ca_directory: '%s' has no certificate under its hash; run 'openssl rehash' on it",
                                path);
}

static int fail_in_openssl(redlock_result *result)
{
    return rl_result_fail(result, REDLOCK_SYSTEM, "OpenSSL cannot be set up: %s", reason());
}

static int trust(SSL_CTX *context, const redlock_options *options, redlock_result *result)
{
    const char *file = options->tls_ca_file, *directory = options->tls_ca_directory;
    if (!file && !directory)
        return SSL_CTX_set_default_verify_paths(context) == 1 ? REDLOCK_OK : fail_in_openssl(result);
    int status = directory ? check_directory(directory, result) : REDLOCK_OK;
    if (!status && file)
        status = check_readable("tls_ca_file", file, result);
    if (status || SSL_CTX_load_verify_locations(context, file, directory) == 1)
        return status;
    return rl_result_fail(result, REDLOCK_INVALID, "tls_ca_file: '%s' holds no certificate (%s); it must be a PEM file",
                          file ? file : directory, reason());
}

/* OpenSSL's default callback would prompt on the terminal. */
static int refuse_passphrase(char *buffer, int size, int writing, void *asked)
{
    (void)buffer;
    (void)size;
    (void)writing;
    *(bool *)asked = true;
    return -1;
}

static int read_key(const char *path, EVP_PKEY **key, redlock_result *result)
{
    bool encrypted = false;
    FILE *file = fopen(path, "re");
    *key = file ? PEM_read_PrivateKey(file, NULL, refuse_passphrase, &encrypted) : NULL;
    if (file)
        fclose(file);
    if (*key)
        return REDLOCK_OK;
    if (encrypted)
        return rl_result_fail(result, REDLOCK_INVALID,
                              "tls_key_file: the key in '%s' is encrypted; use one without a passphrase, readable by "
                              "its owner only",
                              path);
    return rl_result_fail(result, REDLOCK_INVALID,
                          "tls_key_file: '%s' holds no private key (%s); it must be a PEM file", path, reason());
}

static int use_key(SSL_CTX *context, const redlock_options *options, redlock_result *result)
{
    EVP_PKEY *key;
    int status = read_key(options->tls_key_file, &key, result);
    if (status)
        return status;
    if (X509_check_private_key(SSL_CTX_get0_certificate(context), key) != 1)
        status = rl_result_fail(result, REDLOCK_INVALID,
                                "tls_key_file: '%s' is not the key of the first certificate in tls_certificate_file "
                                "'%s'",
                                options->tls_key_file, options->tls_certificate_file);
    else if (SSL_CTX_use_PrivateKey(context, key) != 1)
        status = fail_in_openssl(result);
    EVP_PKEY_free(key);
    return status;
}

/* Sets the client's certificate, for servers that request one. */
static int present(SSL_CTX *context, const redlock_options *options, redlock_result *result)
{
    const char *path = options->tls_certificate_file;
    if (!path)
        return REDLOCK_OK;
    int status = check_readable("tls_certificate_file", path, result);
    if (!status)
        status = check_readable("tls_key_file", options->tls_key_file, result);
    if (status)
        return status;
    if (SSL_CTX_use_certificate_chain_file(context, path) != 1)
        return rl_result_fail(result, REDLOCK_INVALID,
                              "tls_certificate_file: '%s' holds no usable certificate (%s); it must be a PEM file, the "
                              "client's own certificate first",
                              path, reason());
    return use_key(context, options, result);
}

static int set_up(SSL_CTX *context, const redlock_options *options, redlock_result *result)
{
    if (!context || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
        return fail_in_openssl(result);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(context, options->tls_no_verify ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    int status = trust(context, options, result);
    return status ? status : present(context, options, result);
}

/* Another number when a file is written or replaced. 0: one cannot be looked at, for a moment while it is replaced. */
static uint64_t version_of_files(const redlock_options *options)
{
    const char *const paths[] = {options->tls_certificate_file, options->tls_key_file, options->tls_ca_file};
    uint64_t version = RL_HASH_OF_NOTHING;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct stat found;
        if (!paths[i])
            continue;
        if (stat(paths[i], &found) != 0)
            return 0;
        version = rl_hash(version, (const char *)&found.st_dev, sizeof found.st_dev);
        version = rl_hash(version, (const char *)&found.st_ino, sizeof found.st_ino);
        version = rl_hash(version, (const char *)&found.st_size, sizeof found.st_size);
        version = rl_hash(version, (const char *)&found.st_mtim, sizeof found.st_mtim);
    }
    return version;
}

/* The version is that from before the reading: a file that is replaced meanwhile is read again at the next connect. */
static int read_files(struct rl_tls *tls, uint64_t version, redlock_result *result)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    int status = set_up(context, tls->options, result);
    if (status) {
        SSL_CTX_free(context);
        return status;
    }
    SSL_CTX_free(tls->context); /* the connections that use it have their references */
    tls->context = context;
    tls->version = version;
    return REDLOCK_OK;
}

static void refresh(struct rl_tls *tls)
{
    uint64_t version = version_of_files(tls->options);
    redlock_result why;
    if (!version || version == tls->version)
        return;
    if (read_files(tls, version, &why))
        rl_log(tls->core, REDLOCK_LOG_WARNING, "TLS: changed files cannot be used, and those before stay in use: %s",
               why.text);
    ERR_clear_error();
}

int rl_tls_create(const struct rl_core *core, struct rl_tls **tls, redlock_result *result)
{
    const redlock_options *options = &core->options;
    const char *name = options->tls_server_name;
    if (name && (name[0] == '\0' || strlen(name) >= RL_HOST_SIZE))
        return rl_result_fail(result, REDLOCK_INVALID,
                              "tls_server_name has %zu bytes; it must be the name or the address in the servers' "
                              "certificates",
                              strlen(name));
    struct rl_tls *made = rl_allocate(&core->allocator, sizeof *made);
    if (!made)
        return rl_result_fail(result, REDLOCK_NO_MEMORY, "no memory for TLS");
    *made = (struct rl_tls){.core = core, .options = options};
    ERR_clear_error();
    int status = read_files(made, version_of_files(options), result);
    ERR_clear_error();
    if (status)
        rl_tls_destroy(made, &core->allocator);
    else
        *tls = made;
    return status;
}

void rl_tls_destroy(struct rl_tls *tls, const redlock_allocator *allocator)
{
    if (tls)
        SSL_CTX_free(tls->context);
    rl_free(allocator, tls);
}

/* ----------------------------------------------------------------------------------------------------------- a link */

/* The name in the form of certificates and SNI: without an IPv6 scope and without the dot that ends an absolute
 * name. */
static void bare_name(const struct rl_tls *tls, const char *host, char name[RL_HOST_SIZE])
{
    snprintf(name, RL_HOST_SIZE, "%s", tls->options->tls_server_name ? tls->options->tls_server_name : host);
    name[strcspn(name, "%")] = '\0';
    size_t length = strlen(name);
    if (length > 1 && name[length - 1] == '.')
        name[length - 1] = '\0';
}

static bool is_address(const char *name)
{
    struct in6_addr binary;
    return inet_pton(AF_INET, name, &binary) == 1 || inet_pton(AF_INET6, name, &binary) == 1;
}

static bool expect(SSL *link, char *name)
{
    if (is_address(name))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(link), name) == 1;
    SSL_set_hostflags(link, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return SSL_set1_host(link, name) == 1 && SSL_set_tlsext_host_name(link, name) == 1;
}

static SSL *new_link(const struct rl_tls *tls, const char *host)
{
    char name[RL_HOST_SIZE];
    bare_name(tls, host, name);
    SSL *link = SSL_new(tls->context);
    /* OpenSSL would accept every certificate for an empty name. */
    if (link && name[0] && expect(link, name))
        return link;
    SSL_free(link);
    return NULL;
}

struct ssl_st *rl_tls_start(struct rl_tls *tls, redisContext *context, const char *host, char *error, size_t size,
                            bool *permanent)
{
    refresh(tls);
    SSL *link = new_link(tls, host);
    *permanent = false;
    if (!link) {
        snprintf(error, size, "TLS: OpenSSL cannot check for this name");
        return NULL;
    }
    if (redisInitiateSSL(context, link) == REDIS_OK)
        return link;
    *permanent = rl_tls_explain(tls, link, host, error, size);
    if (error[0] == '\0') {
        const char *cause = strstr(context->errstr, ": ");
        snprintf(error, size, "cannot connect: %s", cause ? cause + 2 : context->errstr);
        rl_tls_explain_reset(link, error, size);
    }
    SSL_free(link);
    return NULL;
}

void rl_tls_clear_errors(void)
{
    ERR_clear_error();
}

bool rl_tls_wants_to_write(const struct ssl_st *link)
{
    return SSL_want(link) == SSL_WRITING;
}

bool rl_tls_is_established(const struct ssl_st *link)
{
    return SSL_is_init_finished(link);
}

/* ---------------------------------------------------------------------------------------------------------- failures */

static void explain_certificate(const struct rl_tls *tls, long verdict, const char *host, char *text, size_t size)
{
    char name[RL_HOST_SIZE];
    bare_name(tls, host, name);
    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
        snprintf(text, size, "TLS: the server's certificate is not for %s", name);
    else
        snprintf(text, size, "TLS: certificate not trusted: %s", X509_verify_cert_error_string(verdict));
}

/* Alerts about the configuration of client or server. Others, such as an internal error, may be temporary. */
static bool is_lasting_alert(int alert)
{
    static const int lasting[] = {
        SSL_AD_HANDSHAKE_FAILURE,   SSL_AD_BAD_CERTIFICATE,       SSL_AD_UNSUPPORTED_CERTIFICATE,
        SSL_AD_CERTIFICATE_REVOKED, SSL_AD_CERTIFICATE_EXPIRED,   SSL_AD_CERTIFICATE_UNKNOWN,
        SSL_AD_UNKNOWN_CA,          SSL_AD_ACCESS_DENIED,         SSL_AD_PROTOCOL_VERSION,
        SSL_AD_UNRECOGNIZED_NAME,   SSL_AD_INSUFFICIENT_SECURITY,
#ifdef SSL_AD_CERTIFICATE_REQUIRED
        SSL_AD_CERTIFICATE_REQUIRED
#endif
    };
    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++)
        if (alert == lasting[i])
            return true;
    return false;
}

static bool explain_alert(SSL *link, int alert, const char *words, char *text, size_t size)
{
    bool no_certificate = !SSL_get_certificate(link);
#ifdef SSL_AD_CERTIFICATE_REQUIRED
    if (alert == SSL_AD_CERTIFICATE_REQUIRED && no_certificate) {
        snprintf(text, size,
                 "TLS: the server requires a client certificate: set tls_certificate_file and tls_key_file");
        return true;
    }
#endif
    snprintf(text, size, "TLS: the server refused: %s%s", words,
             alert == SSL_AD_HANDSHAKE_FAILURE && no_certificate ? " (without a client certificate)" : "");
    return is_lasting_alert(alert);
}

/* The server closed the connection: with close_notify, or without it, as a killed server does. */
static bool has_ended(const SSL *link, unsigned long error)
{
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
    if (ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return true;
#endif
    return error == 0 && (SSL_get_shutdown(link) & SSL_RECEIVED_SHUTDOWN);
}

static bool explain_error(SSL *link, unsigned long error, char *text, size_t size)
{
    int code = ERR_GET_REASON(error);
    const char *words = ERR_reason_error_string(error);
    if (has_ended(link, error)) {
        snprintf(text, size, "the server closed the connection%s",
                 rl_tls_is_established(link) ? "" : " during the TLS handshake");
        return false;
    }
    if (error == 0 || !words)
        return false;
    if (code >= SSL_AD_REASON_OFFSET)
        return explain_alert(link, code - SSL_AD_REASON_OFFSET, words, text, size);
    if (code == SSL_R_WRONG_VERSION_NUMBER) {
        snprintf(text, size, "TLS: the server does not speak TLS on this port (%s)", words);
        return true;
    }
    snprintf(text, size, "TLS: %s", words);
    return false;
}

bool rl_tls_explain(const struct rl_tls *tls, struct ssl_st *link, const char *host, char *text, size_t size)
{
    char unread;
    text[0] = '\0';
    /* A write to a closed connection leaves no error in the queue; the server's alert may still be unread. */
    if (ERR_peek_error() == 0)
        SSL_peek(link, &unread, 1);
    long verdict = SSL_get_verify_result(link);
    if (SSL_get_verify_mode(link) == SSL_VERIFY_NONE || verdict == X509_V_OK)
        return explain_error(link, ERR_peek_error(), text, size);
    explain_certificate(tls, verdict, host, text, size);
    return true;
}

void rl_tls_explain_reset(const struct ssl_st *link, char *text, size_t size)
{
    size_t used = strlen(text);
    bool was_reset = strstr(text, strerror(ECONNRESET)) || strstr(text, strerror(EPIPE));
    if (was_reset) /* which may have discarded an alert */
        snprintf(text + used, size - used, " (does it %s tls_certificate_file?)",
                 SSL_get_certificate(link) ? "trust" : "require");
}

#else

#pragma GCC diagnostic ignored "-Wunused-parameter"

int rl_tls_create(const struct rl_core *core, struct rl_tls **tls, redlock_result *result)
{
    return rl_result_fail(result, REDLOCK_INVALID,
                          "rediss:// needs TLS, and this library was built without TLS (it needs hiredis 1.0 "
                          "or later with hiredis_ssl); use redis:// or another build");
}

/* No link has a session, so of the functions below only rl_tls_destroy() is called. */

void rl_tls_destroy(struct rl_tls *tls, const redlock_allocator *allocator)
{
}

struct ssl_st *rl_tls_start(struct rl_tls *tls, redisContext *context, const char *host, char *error, size_t size,
                            bool *permanent)
{
    return NULL;
}

void rl_tls_clear_errors(void)
{
}

bool rl_tls_wants_to_write(const struct ssl_st *link)
{
    return false;
}

bool rl_tls_is_established(const struct ssl_st *link)
{
    return false;
}

bool rl_tls_explain(const struct rl_tls *tls, struct ssl_st *link, const char *host, char *text, size_t size)
{
    return false;
}

void rl_tls_explain_reset(const struct ssl_st *link, char *text, size_t size)
{
}

#endif
