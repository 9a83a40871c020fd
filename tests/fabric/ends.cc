#include "tests/fabric/ends.h"

#include <chrono>
#include <cstring>

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(10);

const char* provider_name() {
  const char* name = std::getenv("CONTRACT_PROVIDER");
  return name != nullptr ? name : "viaduct";
}

}  // namespace

World& World::get() {
  static World& world = *new World;
  return world;
}

World::World() {
  fi_info* hints = fi_allocinfo();
  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_RX_CQ_DATA;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = strdup(provider_name());
  const int found = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info);
  fi_freeinfo(hints);
  if (found != 0) {
    std::fprintf(stderr, "fi_getinfo: %s\n", fi_strerror(-found));
    std::exit(1);
  }
  fi_eq_attr eq{};
  eq.wait_obj = FI_WAIT_FD;
  std::size_t length = sizeof address;
  if (fi_fabric(info->fabric_attr, &fabric, nullptr) != 0 ||
      fi_domain(fabric, info, &domain, nullptr) != 0 ||
      fi_eq_open(fabric, &eq, &events, nullptr) != 0 ||
      fi_passive_ep(fabric, info, &listener, nullptr) != 0 ||
      fi_pep_bind(listener, &events->fid, 0) != 0 || fi_listen(listener) != 0 ||
      fi_getname(&listener->fid, &address, &length) != 0) {
    std::fprintf(stderr, "the fabric can't be opened\n");
    std::exit(1);
  }
}

Buffer::Buffer(std::size_t bytes, unsigned char fill) : bytes_(bytes, fill) {
  const std::uint64_t access =
      FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  EXPECT_EQ(fi_mr_reg(World::get().domain, bytes_.data(), bytes, access, 0, 0, 0, &mr_, nullptr),
            0);
}

Buffer::~Buffer() { fi_close(&mr_->fid); }

void Buffer::number(unsigned seed) {
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    bytes_[i] = static_cast<unsigned char>(seed + i * 7 + (i >> 8));
  }
}

bool Buffer::numbered(unsigned seed, std::size_t bytes) const {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (bytes_[i] != static_cast<unsigned char>(seed + i * 7 + (i >> 8))) return false;
  }
  return true;
}

void End::open(fi_info* info, std::uint64_t bind_flags) {
  World& world = World::get();
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_DATA;
  attr.wait_obj = FI_WAIT_FD;
  ASSERT_EQ(fi_cq_open(world.domain, &attr, &queue, nullptr), 0);
  ASSERT_EQ(fi_endpoint(world.domain, info, &ep, nullptr), 0);
  ASSERT_EQ(fi_ep_bind(ep, &world.events->fid, 0), 0);
  ASSERT_EQ(fi_ep_bind(ep, &queue->fid, FI_TRANSMIT | FI_RECV | bind_flags), 0);
  ASSERT_EQ(fi_enable(ep), 0);
}

void End::close() {
  if (ep != nullptr) {
    EXPECT_EQ(fi_close(&ep->fid), 0);
  }
  ep = nullptr;
  if (queue != nullptr) {
    EXPECT_EQ(fi_close(&queue->fid), 0);
  }
  queue = nullptr;
}

void End::look() {
  fi_cq_data_entry entry;
  while (fi_cq_read(queue, &entry, 1) == 1) kept.push_back(entry);
}

fi_cq_data_entry End::next() {
  const auto end = Clock::now() + kPatience;
  while (Clock::now() < end) {
    if (!kept.empty()) {
      const fi_cq_data_entry entry = kept.front();
      kept.erase(kept.begin());
      return entry;
    }
    fi_cq_data_entry entry{};
    const ssize_t result = fi_cq_read(queue, &entry, 1);
    if (result == 1) return entry;
    if (result != -FI_EAGAIN) {
      fi_cq_err_entry error{};
      fi_cq_readerr(queue, &error, 0);
      ADD_FAILURE() << "an error instead of a completion: " << fi_strerror(error.err);
      return {};
    }
  }
  ADD_FAILURE() << "no completion";
  return {};
}

fi_cq_err_entry End::next_error() {
  const auto end = Clock::now() + kPatience;
  fi_cq_err_entry error{};
  while (Clock::now() < end) {
    fi_cq_data_entry entry{};
    const ssize_t result = fi_cq_read(queue, &entry, 1);
    if (result == 1) {
      ADD_FAILURE() << "a completion instead of an error";
      return error;
    }
    if (result == -FI_EAVAIL) {
      EXPECT_EQ(fi_cq_readerr(queue, &error, 0), 1);
      return error;
    }
  }
  ADD_FAILURE() << "no error";
  return error;
}

Told next_event(int milliseconds) {
  fid_eq* events = World::get().events;
  Told told;
  alignas(8) unsigned char room[sizeof(fi_eq_cm_entry) + 256];
  const ssize_t bytes = fi_eq_sread(events, &told.kind, room, sizeof room, milliseconds, 0);
  if (bytes == -FI_EAVAIL) {
    fi_eq_err_entry error{};
    EXPECT_EQ(fi_eq_readerr(events, &error, 0), static_cast<ssize_t>(sizeof error));
    told.fid = error.fid;
    told.error = error.err;
    told.data.assign(static_cast<const char*>(error.err_data), error.err_data_size);
    return told;
  }
  if (bytes < static_cast<ssize_t>(sizeof(fi_eq_cm_entry))) {
    ADD_FAILURE() << "no event: " << bytes;
    return told;
  }
  fi_eq_cm_entry entry;
  std::memcpy(&entry, room, sizeof entry);
  told.fid = entry.fid;
  told.info = told.kind == FI_CONNREQ ? entry.info : nullptr;
  told.data.assign(reinterpret_cast<char*>(room) + sizeof entry,
                   static_cast<std::size_t>(bytes) - sizeof entry);
  return told;
}

Pair::Pair(std::uint64_t bind_flags, std::size_t size) {
  World& world = World::get();
  fi_info* info = fi_dupinfo(world.info);
  if (size != 0) info->tx_attr->size = info->rx_attr->size = size;
  a.open(info, bind_flags);
  EXPECT_EQ(fi_connect(a.ep, &world.address, nullptr, 0), 0);
  Told request = next_event();
  EXPECT_EQ(request.kind, static_cast<std::uint32_t>(FI_CONNREQ));
  if (size != 0) request.info->tx_attr->size = request.info->rx_attr->size = size;
  b.open(request.info, bind_flags);
  fi_freeinfo(request.info);
  fi_freeinfo(info);
  EXPECT_EQ(fi_accept(b.ep, nullptr, 0), 0);
  for (int i = 0; i < 2; ++i) {
    const Told told = next_event();
    EXPECT_EQ(told.kind, static_cast<std::uint32_t>(FI_CONNECTED));
    EXPECT_TRUE(told.fid == &a.ep->fid || told.fid == &b.ep->fid);
  }
}
