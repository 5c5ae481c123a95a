/* redlock doctor over TLS: each way in which a TLS connection fails is named, with the remedy that helps. */
#include "real/tls_certificates.h"
#include "scene.h"

enum { CRITICAL = 2, YEAR = 365 };

/* The server expects TLS, has a certificate for 127.0.0.1 of an authority that the client trusts, and takes clients
 * without a certificate, except where a row says otherwise. */
static const struct {
    const char *protocols; /* of a server that requires a client certificate; NULL: it requires none */
    const char *issuer;    /* of its certificate; NULL: the authority */
    const char *names;     /* of its certificate; NULL: 127.0.0.1 */
    bool expired;          /* its certificate */
    bool plain;            /* it has no TLS port */
    const char *scheme;    /* of the node in the list; NULL: rediss:// */
    const char *client;    /* the client's certificate; NULL: none */
    const char *text, *remedy;
} failures[] = {
    {.issuer = "stranger",
     .text = "TLS: certificate not trusted: ",
     .remedy = "set tls-ca-file to the authority that issued the server's certificate"},
    {.names = "DNS:other.example",
     .text = "TLS: the server's certificate is not for 127.0.0.1",
     .remedy = "list the node by a name or address that its certificate has, or set tls-server-name"},
    {.expired = true,
     .text = "TLS: certificate not trusted: certificate has expired",
     .remedy = "renew the server's certificate; or this machine's clock is wrong"},
    {.protocols = "TLSv1.2",
     .text = "(without a client certificate)",
     .remedy = "set tls-certificate-file and tls-key-file in the config file"},
    {.protocols = "TLSv1.3",
     .text = "TLS: the server requires a client certificate",
     .remedy = "set tls-certificate-file and tls-key-file in the config file"},
    {.protocols = "TLSv1.2",
     .client = "foreign",
     .text = "TLS: the server refused: tlsv1 alert unknown ca",
     .remedy = "the server does not trust this client's certificate: set its tls-ca-cert-file to the authority"},
    {.protocols = "TLSv1.3",
     .client = "foreign",
     .text = "TLS: the server refused: tlsv1 alert unknown ca",
     .remedy = "the server does not trust this client's certificate: set its tls-ca-cert-file to the authority"},
    {.protocols = "TLSv1.2",
     .client = "expired",
     .text = "alert certificate expired",
     .remedy = "this client's certificate has expired: renew tls-certificate-file"},
    {.protocols = "TLSv1.3",
     .client = "expired",
     .text = "alert certificate expired",
     .remedy = "this client's certificate has expired: renew tls-certificate-file"},
    {.scheme = "",
     .text = "; does this port speak TLS?",
     .remedy = "if it does, write rediss:// in front of the node; otherwise see the server's log"},
    {.plain = true, .text = "TLS", .remedy = "list it without rediss://, or with the server's TLS port"},
    {.scheme = "clusters://",
     .expired = true,
     .text = "TLS: certificate not trusted: certificate has expired",
     .remedy = "renew the server's certificate; or this machine's clock is wrong"},
    {.scheme = "cluster://",
     .text = "the connection broke: ",
     .remedy = "see their logs; if they speak TLS, write sentinels:// or clusters://"},
};

static void start(int row)
{
    const char *issuer = failures[row].issuer != NULL ? failures[row].issuer : "authority";
    const char *protocols = failures[row].protocols;
    certificates_begin();
    certificates_make("authority", NULL, NULL, YEAR);
    certificates_make("stranger", NULL, NULL, YEAR);
    certificates_make("foreign", "stranger", NULL, YEAR);
    certificates_make("expired", "authority", NULL, 0);
    certificates_make("server", issuer, failures[row].names != NULL ? failures[row].names : "IP:127.0.0.1",
                      failures[row].expired ? 0 : YEAR);
    real_note_descriptors();
    const struct cluster_tls tls = {certificates_path("server.pem"), certificates_path("server.key"),
                                    certificates_path("authority.pem"), protocols != NULL};
    const char *const arguments[] = {"--tls-protocols", protocols, NULL};
    real_cluster_of(1, (struct cluster_node_options){.tls = failures[row].plain ? NULL : &tls,
                                                     .arguments = protocols != NULL ? arguments : NULL});
}

/* The config file. Doctor waits for a plain server, which leaves the handshake without a reply, and for a cluster. */
static const char *settings(int row)
{
    const char *client = failures[row].client;
    bool is_cluster = failures[row].scheme != NULL && strncmp(failures[row].scheme, "cluster", 7) == 0;
    const char *text = program_text("%stls-ca-file = %s\nprefix = {tag}:\nmarker-key = {tag}:marker\n",
                                    failures[row].plain || is_cluster ? "connect-timeout = 2s\n" : SCENE_PATIENCE,
                                    certificates_path("authority.pem"));
    if (client != NULL)
        text = program_text("%stls-certificate-file = %s\ntls-key-file = %s\n", text,
                            certificates_path(program_text("%s.pem", client)),
                            certificates_path(program_text("%s.key", client)));
    return scene_file(text);
}

/* The server refuses the client, and closes the connection while a request is on its way: then the reset may discard the
 * reason before the client has read it. */
static bool has_lost_the_reason(struct program *program)
{
    static const char *const remedies[] = {
        "(does it require tls_certificate_file?)\n      -> set tls-certificate-file and tls-key-file; ",
        "(does it trust tls_certificate_file?)\n      -> see the server's log"};

    return strstr(program_output(program), remedies[0]) != NULL || strstr(program_output(program), remedies[1]) != NULL;
}

TEST_ROWS(no_nodes, failures_of_tls_are_named_with_their_remedies, ROWS(failures))
{
    enum { ATTEMPTS = 10 };
    start(_i);
    program_setting.nodes = program_text(
        "%s127.0.0.1:%u", failures[_i].scheme != NULL ? failures[_i].scheme : "rediss://", cluster_port(cluster, 0));
    program_setting.config = settings(_i);
    struct program *program = program_exits(program_run("doctor"), CRITICAL);
    for (int i = 0; i < ATTEMPTS && failures[_i].protocols != NULL && has_lost_the_reason(program); i++)
        program = program_exits(program_run("doctor"), CRITICAL);
    if (failures[_i].protocols != NULL && has_lost_the_reason(program))
        return;
    program_output_has(program, failures[_i].text);
    program_output_has(program, program_text("\n      -> %s", failures[_i].remedy));
}

REAL_PROGRAM("cli_tls")
