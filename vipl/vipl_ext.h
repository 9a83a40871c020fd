/* vipl_ext.h: what Viaduct offers beyond vipl.h. All names begin with Vipx.
 *
 * The functions here may be called at any time by any thread, do not block and need no open NIC.
 */
#ifndef VIPL_EXT_H
#define VIPL_EXT_H

#include "vipl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "major.minor.patch". Static. */
const char *VipxVersion(void);

/* What a return code means, in a few words of English without a full stop. Static; never NULL: an
 * unknown code gives "unknown return code". */
const char *VipxReturnText(VIP_RETURN code);

/* The same for the ErrorCode of a VIP_ERROR_DESCRIPTOR. */
const char *VipxErrorText(VIP_ERROR_CODE code);

#ifdef __cplusplus
}
#endif

#endif
