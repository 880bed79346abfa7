// Copyright 2026 The firn Authors
// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/ptx_text.h"

namespace firn::gpu_check {

const char kPtxText[] = R"ptx(
.version 6.0
.target sm_70
.address_size 64

.visible .entry firn_spin(
  .param .u64 control,
  .param .u64 limit_ns,
  .param .u64 touched)
{
  .reg .pred %p<4>;
  .reg .u32 %r<5>;
  .reg .u64 %d<8>;

  ld.param.u64 %d1, [control];
  ld.param.u64 %d2, [limit_ns];
  ld.param.u64 %d3, [touched];
  mov.u64 %d4, %globaltimer;
  setp.eq.u64 %p1, %d3, 0;
  @%p1 bra START;
  ld.volatile.u32 %r1, [%d3];
START:
  mov.u32 %r2, 1;
  st.volatile.u32 [%d1+4], %r2;
  membar.sys;
SPIN:
  ld.volatile.u32 %r3, [%d1];
  setp.ne.u32 %p2, %r3, 0;
  @%p2 bra END;
  mov.u64 %d5, %globaltimer;
  sub.u64 %d6, %d5, %d4;
  setp.lt.u64 %p3, %d6, %d2;
  @%p3 bra SPIN;
END:
  st.volatile.u32 [%d1+8], %r2;
  membar.sys;
  ret;
}

.visible .entry firn_read(
  .param .u64 base,
  .param .u64 vg_bytes,
  .param .u64 part_bytes,
  .param .u32 alias_mask,
  .param .u32 vg_count,
  .param .u32 slots,
  .param .u32 interleaved,
  .param .u64 sink)
{
  .reg .pred %p<4>;
  .reg .u32 %r<32>;
  .reg .u64 %d<16>;

  ld.param.u64 %d1, [base];
  ld.param.u64 %d2, [vg_bytes];
  ld.param.u64 %d3, [part_bytes];
  ld.param.u32 %r1, [alias_mask];
  ld.param.u32 %r2, [vg_count];
  ld.param.u32 %r3, [slots];
  ld.param.u32 %r4, [interleaved];
  ld.param.u64 %d4, [sink];

  mov.u32 %r5, %tid.x;
  mov.u32 %r6, %ntid.x;
  mov.u32 %r7, %ctaid.x;
  mov.u32 %r8, %nctaid.x;
  mad.lo.u32 %r9, %r7, %r6, %r5;
  shr.u32 %r9, %r9, 5;
  mul.lo.u32 %r10, %r6, %r8;
  shr.u32 %r10, %r10, 5;
  and.b32 %r11, %r5, 31;
  mul.wide.u32 %d5, %r11, 16;
  mul.lo.u32 %r12, %r2, %r3;
  mov.u32 %r13, 0;
  setp.ne.u32 %p1, %r4, 0;
  selp.u32 %r14, %r2, %r3, %p1;
LOOP:
  setp.ge.u32 %p2, %r9, %r12;
  @%p2 bra END;
  div.u32 %r15, %r9, %r14;
  mul.lo.u32 %r16, %r15, %r14;
  sub.u32 %r16, %r9, %r16;
  selp.u32 %r17, %r16, %r15, %p1;
  selp.u32 %r18, %r15, %r16, %p1;
  and.b32 %r19, %r17, %r1;
  cvt.u64.u32 %d6, %r17;
  mad.lo.u64 %d7, %d6, %d2, %d1;
  cvt.u64.u32 %d8, %r19;
  mad.lo.u64 %d7, %d8, %d3, %d7;
  mul.wide.u32 %d9, %r18, 512;
  add.u64 %d7, %d7, %d9;
  add.u64 %d7, %d7, %d5;
  ld.global.v4.u32 {%r20, %r21, %r22, %r23}, [%d7];
  xor.b32 %r13, %r13, %r20;
  xor.b32 %r13, %r13, %r21;
  xor.b32 %r13, %r13, %r22;
  xor.b32 %r13, %r13, %r23;
  add.u32 %r9, %r9, %r10;
  bra LOOP;
END:
  setp.ne.u32 %p3, %r13, 0x5EED5EED;
  @%p3 bra RETURN;
  st.global.u32 [%d4], %r13;
RETURN:
  ret;
}
)ptx";

}  // namespace firn::gpu_check
