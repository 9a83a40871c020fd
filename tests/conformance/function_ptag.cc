// VipCreatePtag, VipDestroyPtag.
#include "suite.h"

namespace conformance {
namespace {

using FunctionPtag = Conformance;

TEST_F(FunctionPtag, CreateGivesDifferentTags) {
  const PtagHandle a = must(near.create_ptag()), b = must(near.create_ptag());
  EXPECT_NE(a, b);
  EXPECT_NE(a, PtagHandle{});
  EXPECT_EQ(near.destroy_ptag(a).code, VIP_SUCCESS);
  EXPECT_EQ(near.destroy_ptag(b).code, VIP_SUCCESS);
}

TEST_F(FunctionPtag, CreateRefusesNullAndBadHandles) {
  EXPECT_EQ(near.create_ptag(null(2)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(here->call<op::create_ptag>(NicHandle{}, Nulls{}).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionPtag, CreateEndsAtTheLimitAndGoesOnAfterIt) {
  std::vector<PtagHandle> tags;
  for (int round = 0; round < 2; ++round) {
    Made<PtagHandle> made;
    while ((made = near.create_ptag()).code == VIP_SUCCESS) {
      tags.push_back(made.handle);
      ASSERT_LE(tags.size(), near.attributes().max_ptags);
    }
    EXPECT_EQ(made.code, VIP_ERROR_RESOURCE);
    EXPECT_GT(tags.size(), 0U);
    for (const PtagHandle tag : tags) EXPECT_EQ(near.destroy_ptag(tag).code, VIP_SUCCESS);
    tags.clear();
  }
}

TEST_F(FunctionPtag, DestroyRefusesWhatIsNotATag) {
  const PtagHandle tag = must(near.create_ptag());
  EXPECT_EQ(near.destroy_ptag(tag).code, VIP_SUCCESS);
  EXPECT_NE(near.destroy_ptag(tag).code, VIP_SUCCESS) << "destroyed before";
  EXPECT_EQ(near.destroy_ptag(PtagHandle{0x1234}).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(here->call<op::destroy_ptag>(NicHandle{}, tag).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionPtag, DestroyRefusesATagThatSomethingBears) {
  const PtagHandle tag = must(near.create_ptag());
  ViAttributes attributes = near.vi_attributes(VIP_SERVICE_UNRELIABLE);
  attributes.ptag = tag;
  const Vi vi = must(near.create_vi(attributes));
  EXPECT_EQ(near.destroy_ptag(tag).code, VIP_ERROR_RESOURCE) << "a VI";
  must(vi.destroy());
  const Region region = near.memory(64, {tag, VIP_FALSE, VIP_FALSE});
  EXPECT_EQ(near.destroy_ptag(tag).code, VIP_ERROR_RESOURCE) << "a region";
  must(region.deregister());
  EXPECT_EQ(near.destroy_ptag(tag).code, VIP_SUCCESS);
}

TEST_F(FunctionPtag, DestroyCountsTheTagOfChangedAttributes) {
  const PtagHandle first = must(near.create_ptag()), second = must(near.create_ptag());
  ViAttributes attributes = near.vi_attributes(VIP_SERVICE_UNRELIABLE);
  attributes.ptag = first;
  const Vi vi = must(near.create_vi(attributes));
  const Region region = near.memory(64, {first, VIP_FALSE, VIP_FALSE});
  attributes.ptag = second;
  must(vi.set_attributes(attributes));
  must(region.set_attributes({second, VIP_FALSE, VIP_FALSE}));
  EXPECT_EQ(near.destroy_ptag(first).code, VIP_SUCCESS);
  EXPECT_EQ(near.destroy_ptag(second).code, VIP_ERROR_RESOURCE);
}

}  // namespace
}  // namespace conformance
