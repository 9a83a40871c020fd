// vipl_ext.h: version and texts.
#include "config.h"
#include "vipl/api/api.h"

const char* VipxVersion(void) { return PACKAGE_VERSION; }

const char* VipxReturnText(VIP_RETURN code) {
  switch (code) {
    case VIP_SUCCESS:
      return "success";
    case VIP_NOT_DONE:
      return "not done yet";
    case VIP_INVALID_PARAMETER:
      return "invalid parameter";
    case VIP_ERROR_RESOURCE:
      return "not enough resources, or the agent is not there";
    case VIP_TIMEOUT:
      return "timed out";
    case VIP_REJECT:
      return "connection rejected by the peer";
    case VIP_INVALID_RELIABILITY_LEVEL:
      return "reliability level not supported or not the peer's";
    case VIP_INVALID_MTU:
      return "maximum transfer size not supported or not the peer's";
    case VIP_INVALID_QOS:
      return "quality of service not supported or not the peer's";
    case VIP_INVALID_PTAG:
      return "invalid protection tag";
    case VIP_INVALID_RDMAREAD:
      return "RDMA read not supported";
    case VIP_DESCRIPTOR_ERROR:
      return "descriptor completed with an error, or queue empty";
    case VIP_INVALID_STATE:
      return "VI in the wrong state";
    case VIP_ERROR_NAMESERVICE:
      return "name not known";
    case VIP_NO_MATCH:
      return "nobody waits at that address";
    case VIP_NOT_REACHABLE:
      return "network not reachable";
    case VIP_ERROR_NOT_SUPPORTED:
      return "not supported";
  }
  return "unknown return code";
}

const char* VipxErrorText(VIP_ERROR_CODE code) {
  switch (code) {
    case VIP_ERROR_POST_DESC:
      return "error while posting a descriptor";
    case VIP_ERROR_CONN_LOST:
      return "connection lost";
    case VIP_ERROR_RECVQ_EMPTY:
      return "data arrived while no receive was posted";
    case VIP_ERROR_VI_OVERRUN:
      return "VI overrun";
    case VIP_ERROR_RDMAW_PROT:
      return "protection error in an RDMA write";
    case VIP_ERROR_RDMAW_DATA:
      return "data error in an RDMA write";
    case VIP_ERROR_RDMAW_ABORT:
      return "RDMA write aborted";
    case VIP_ERROR_RDMAR_PROT:
      return "protection error in an RDMA read";
    case VIP_ERROR_COMP_PROT:
      return "protection error while completing a descriptor";
    case VIP_ERROR_RDMA_TRANSPORT:
      return "transport error in an RDMA operation";
    case VIP_ERROR_CATASTROPHIC:
      return "catastrophic error";
  }
  return "unknown error code";
}
