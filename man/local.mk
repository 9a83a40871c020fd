# man
dist_man_MANS += man/viad.8 man/viactl.8 man/viadump.1 man/viad.conf.5 man/viaping.1 man/viabench.1 man/vialab.1 man/viaduct-wire.7 man/vipl.7
if WITH_SOVIA
dist_man_MANS += man/sovia.1 man/sovia.7 man/libsovia.3
endif

# One page for each function, made from the comments of the headers.
vipl_pages = \
	man/VipOpenNic.3 \
	man/VipCloseNic.3 \
	man/VipQueryNic.3 \
	man/VipCreatePtag.3 \
	man/VipDestroyPtag.3 \
	man/VipRegisterMem.3 \
	man/VipDeregisterMem.3 \
	man/VipQueryMem.3 \
	man/VipSetMemAttributes.3 \
	man/VipCreateVi.3 \
	man/VipDestroyVi.3 \
	man/VipQueryVi.3 \
	man/VipSetViAttributes.3 \
	man/VipConnectWait.3 \
	man/VipConnectAccept.3 \
	man/VipConnectReject.3 \
	man/VipConnectRequest.3 \
	man/VipDisconnect.3 \
	man/VipConnectPeerRequest.3 \
	man/VipConnectPeerDone.3 \
	man/VipConnectPeerWait.3 \
	man/VipPostSend.3 \
	man/VipPostRecv.3 \
	man/VipSendDone.3 \
	man/VipRecvDone.3 \
	man/VipSendWait.3 \
	man/VipRecvWait.3 \
	man/VipSendNotify.3 \
	man/VipRecvNotify.3 \
	man/VipCreateCQ.3 \
	man/VipDestroyCQ.3 \
	man/VipResizeCQ.3 \
	man/VipCQDone.3 \
	man/VipCQWait.3 \
	man/VipCQNotify.3 \
	man/VipNSInit.3 \
	man/VipNSGetHostByName.3 \
	man/VipNSGetHostByAddr.3 \
	man/VipNSShutdown.3 \
	man/VipErrorCallback.3 \
	man/VipQuerySystemManagementInfo.3 \
	man/VipSetUserData.3 \
	man/VipGetUserData.3 \
	man/VipAddTagCQ.3 \
	man/VipRemoveTagCQ.3 \
	man/VipPostDeferredSends.3 \
	man/VipxCopy.3 \
	man/VipxVersion.3 \
	man/VipxReturnText.3 \
	man/VipxErrorText.3 \
	man/VipxPoll.3 \
	man/VipxDescriptors.3 \
	man/VipxQueryDevice.3 \
	man/VipxKeepEnvironment.3 \
	man/VipxClaim.3 \
	man/VipxUnclaim.3 \
	man/VipxVerify.3 \
	man/VipxAttach.3 \
	man/VipxTakeVi.3 \
	man/VipxHoldPosts.3 \
	man/VipxRedirect.3 \
	man/VipxSetMore.3 \
	man/VipxSetFinisher.3 \
	man/VipxSetPatient.3 \
	man/VipxUnredirect.3 \
	man/VipxCQDone.3 \
	man/VipxSendDone.3 \
	man/VipxSpin.3

man_MANS = $(vipl_pages)
EXTRA_DIST += man/vipl_pages man/vipl_examples
CLEANFILES += $(vipl_pages) man/vipl_pages.stamp

vipl_headers = $(srcdir)/vipl/vipl.h $(srcdir)/vipl/vipl_ext.h
man/vipl_pages.stamp: $(srcdir)/man/vipl_pages $(srcdir)/man/vipl_examples $(vipl_headers)
	$(AM_V_GEN)$(MKDIR_P) man && $(PERL) $(srcdir)/man/vipl_pages --version $(PACKAGE_VERSION) \
	  --date 2026-11-21 --to man --examples $(srcdir)/man/vipl_examples $(vipl_headers) && touch $@
# A page that was removed by hand comes back.
$(vipl_pages): man/vipl_pages.stamp
	@test -f $@ || { rm -f man/vipl_pages.stamp && $(MAKE) man/vipl_pages.stamp; }
