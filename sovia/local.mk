# sovia: sockets over VIA. libsovia for programs that are linked with it, libsovia-preload for those
# that are not, the program sovia.

sovia_sources = \
	sovia/api.h \
	sovia/api_connection.cc \
	sovia/api_data.cc \
	sovia/api_descriptors.cc \
	sovia/api_epoll.cc \
	sovia/api_files.cc \
	sovia/api_options.cc \
	sovia/api_process.cc \
	sovia/api_stdio.cc \
	sovia/background.cc sovia/background.h \
	sovia/counters.cc sovia/counters.h \
	sovia/engine.cc sovia/engine.h \
	sovia/epoll_registration.h \
	sovia/epoll_set.cc sovia/epoll_set.h \
	sovia/epoll_sets.cc \
	sovia/epoll_wait.cc \
	sovia/event_bits.h \
	sovia/fork.cc sovia/fork.h \
	sovia/kernel.cc sovia/kernel.h \
	sovia/lane.cc sovia/lane.h sovia/packet.h sovia/wire.h \
	sovia/lane_end.h \
	sovia/link.cc sovia/link.h \
	sovia/nic.cc sovia/nic.h \
	sovia/options.cc sovia/options.h \
	sovia/own_descriptors.cc sovia/own_descriptors.h \
	sovia/passing.cc sovia/passing.h \
	sovia/poll_set.cc sovia/poll_set.h \
	sovia/process.cc sovia/process.h \
	sovia/ready.h \
	sovia/ready_poll.cc \
	sovia/ready_select.cc \
	sovia/reason.cc sovia/reason.h \
	sovia/registrations.cc sovia/registrations.h \
	sovia/residue.cc sovia/residue.h \
	sovia/socket.cc sovia/socket.h \
	sovia/socket_io.cc \
	sovia/socket_pool.cc sovia/socket_pool.h \
	sovia/stdio_streams.cc sovia/stdio_streams.h \
	sovia/table.cc sovia/table.h \
	sovia/waiting.h
