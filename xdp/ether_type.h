/* The EtherType of Viaduct's frames where no configuration says another one: IEEE 802 local
   experimental 1. The BPF programs include this too. */
#ifndef VIADUCT_XDP_ETHER_TYPE_H
#define VIADUCT_XDP_ETHER_TYPE_H

#define VIADUCT_ETHER_TYPE 0x88b5

#endif
