// Every kernel, as one code object.
#include "all.h"
