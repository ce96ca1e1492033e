// Every kernel.
#pragma once

#include "activation.h"
#include "attention_plain.h"
#include "attention_plain_backward.h"
#include "attention_tiles.h"
#include "attention_tiles_backward.h"
#include "columns.h"
#include "dropout.h"
#include "elementwise.h"
#include "embedding.h"
#include "loss.h"
#include "norm.h"
#include "norm_backward.h"
#include "optimiser.h"
#include "rope.h"
#include "squares.h"
#include "transpose.h"
