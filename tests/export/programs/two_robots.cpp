/* Two exports in one program. */
#include "panda_ik.h"
#include "dual_panda_ik.h"
int main() { return panda_workspace_size(1) < dual_panda_workspace_size(1) ? 0 : 1; }
