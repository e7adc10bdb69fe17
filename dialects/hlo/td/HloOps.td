//===- HloOps.td - all operations of the hlo dialect ----------------------===//

#ifndef HLO_OPS
#define HLO_OPS

include "HloElementwiseOps.td"
include "HloDataMovementOps.td"
include "HloReductionOps.td"
include "HloControlOps.td"
include "HloCommunicationOps.td"

#endif // HLO_OPS
