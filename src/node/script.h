/* The Lua scripts that run on the nodes; their sources are in src/node/scripts. */
#ifndef RL_SCRIPT_H
#define RL_SCRIPT_H

/* In the order of the list in src/CMakeLists.txt. */
enum rl_script_id {
    RL_SCRIPT_RELEASE,
    RL_SCRIPT_RELEASES,
    RL_SCRIPT_EXTEND,
    RL_SCRIPT_QUERY,
    RL_SCRIPT_HEAL,
    RL_SCRIPT_GUARD,
    RL_SCRIPT_WAIT,
    RL_SCRIPT_GRANT,
    RL_SCRIPT_KEEP,
    RL_SCRIPT_FREE,
    RL_SCRIPT_LIST,
    RL_SCRIPT_DOWNGRADE,
    RL_SCRIPTS
};

struct rl_script {
    const char *name;
    const char *sha1; /* for EVALSHA */
    const char *text;
};

extern const struct rl_script rl_scripts[RL_SCRIPTS];

#endif
