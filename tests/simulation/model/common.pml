/* What the models share: three nodes, and arithmetic. */
#define NODES  3
#define QUORUM 2

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define LESS(x)   x = (x > 0 -> x - 1 : 0)
