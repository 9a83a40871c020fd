// Values to bytes and back, for the control channel. Integers are little-endian of their own size;
// strings and vectors have a 32-bit count before them; a structure has a member function template
// fields(archive) that hands all its members over, and so is written and read by the same line.
#ifndef CONFORMANCE_ARCHIVE_H
#define CONFORMANCE_ARCHIVE_H

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace conformance {

class Writer {
 public:
  std::string bytes;

  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      put(static_cast<std::uint64_t>(value));
    } else if constexpr (std::is_integral_v<T>) {
      const auto bits = static_cast<std::uint64_t>(value);
      for (std::size_t i = 0; i < sizeof(T); ++i)
        bytes.push_back(static_cast<char>(bits >> (8 * i)));
    } else {
      const_cast<T&>(value).fields(*this);
    }
  }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes += text;
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) put(value);
  }
  template <class K, class V>
  void put(const std::map<K, V>& values) {
    put(static_cast<std::uint32_t>(values.size()));
    for (const auto& [key, value] : values) (*this)(key, value);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class... T>
  void put(const std::tuple<T...>& values) {
    std::apply([this](const auto&... each) { (*this)(each...); }, values);
  }
};

// Throws std::runtime_error when the bytes end too early.
class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}

  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }

 private:
  const char* take(std::size_t size) {
    if (bytes_.size() - at_ < size) throw std::runtime_error("a message of the peer is too short");
    at_ += size;
    return bytes_.data() + at_ - size;
  }
  template <class T>
  void get(T& value) {
    if constexpr (std::is_enum_v<T>) {
      std::uint64_t number = 0;
      get(number);
      value = static_cast<T>(number);
    } else if constexpr (std::is_integral_v<T>) {
      const char* const from = take(sizeof(T));
      std::uint64_t bits = 0;
      for (std::size_t i = 0; i < sizeof(T); ++i) {
        bits |= std::uint64_t{static_cast<unsigned char>(from[i])} << (8 * i);
      }
      value = static_cast<T>(bits);
    } else {
      value.fields(*this);
    }
  }
  void get(std::string& text) {
    const std::uint32_t size = count();
    text.assign(take(size), size);
  }
  template <class T>
  void get(std::vector<T>& values) {
    values.clear();
    for (std::uint32_t n = count(); n > 0; --n) get(values.emplace_back());
  }
  template <class K, class V>
  void get(std::map<K, V>& values) {
    values.clear();
    for (std::uint32_t n = count(); n > 0; --n) {
      K key{};
      V value{};
      (*this)(key, value);
      values.emplace(std::move(key), std::move(value));
    }
  }
  template <class T>
  void get(std::optional<T>& value) {
    bool has = false;
    get(has);
    value.reset();
    if (has) get(value.emplace());
  }
  template <class... T>
  void get(std::tuple<T...>& values) {
    std::apply([this](auto&... each) { (*this)(each...); }, values);
  }
  std::uint32_t count() {
    std::uint32_t n = 0;
    get(n);
    return n;
  }

  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace conformance

#endif
