#include "textflag.h"

// What clean looks for, sixteen times each: see odd for what turning over bit 1 is good for.
DATA wireBit<>+0(SB)/8, $0x0202020202020202
DATA wireBit<>+8(SB)/8, $0x0202020202020202
GLOBL wireBit<>(SB), RODATA|NOPTR, $16
DATA wireSpace<>+0(SB)/8, $0x2020202020202020
DATA wireSpace<>+8(SB)/8, $0x2020202020202020
GLOBL wireSpace<>(SB), RODATA|NOPTR, $16
DATA wireSlash<>+0(SB)/8, $0x5c5c5c5c5c5c5c5c
DATA wireSlash<>+8(SB)/8, $0x5c5c5c5c5c5c5c5c
GLOBL wireSlash<>(SB), RODATA|NOPTR, $16

// LOOK leaves in a where its bytes were plain; b is lost. The comparison has signs: bytes from 0x80 on are below everything.
#define LOOK(a, b) \
	MOVO    a, b   \
	PXOR    X12, b \
	PCMPGTB X13, b \
	PCMPEQB X14, a \
	PANDN   b, a

// WIDE leaves in a where the thirty-two bytes from at on were plain; b is lost.
#define WIDE(at, a, b) \
	VPXOR    at(SI)(AX*1), Y12, a \
	VPCMPGTB Y13, a, a            \
	VPCMPEQB at(SI)(AX*1), Y14, b \
	VPANDN   a, b, a

// func clean(p *byte, n int) int
//
// It needs SSE2, which every amd64 has, and reads whole sixteens within n only. A run that has shown itself to be long goes on in
// thirty-twos, four at a time, where there is AVX2.
TEXT ·clean(SB), NOSPLIT, $0-24
	MOVQ  p+0(FP), SI
	MOVQ  n+8(FP), CX
	XORQ  AX, AX
	SUBQ  $16, CX // the last place where sixteen bytes begin
	JLT   done
	MOVOU wireBit<>(SB), X12
	MOVOU wireSpace<>(SB), X13
	MOVOU wireSlash<>(SB), X14
	MOVOU (SI), X0
	LOOK(X0, X4)
	PMOVMSKB X0, DX
	XORL     $0xffff, DX
	JNZ      found
	MOVQ     $16, AX
	LEAQ     -48(CX), BX // the last place where sixty-four do

many:
	CMPQ     AX, BX
	JGT      few
	MOVOU    (SI)(AX*1), X0
	MOVOU    16(SI)(AX*1), X1
	MOVOU    32(SI)(AX*1), X2
	MOVOU    48(SI)(AX*1), X3
	LOOK(X0, X4)
	LOOK(X1, X5)
	LOOK(X2, X6)
	LOOK(X3, X7)
	PAND     X1, X0
	PAND     X3, X2
	PAND     X2, X0
	PMOVMSKB X0, DX
	CMPL     DX, $0xffff
	JNE      few
	ADDQ     $64, AX
	CMPQ     AX, $272 // the first sixteen, and four times sixty-four
	JNE      many
	CMPB     ·wide(SB), $0
	JEQ      many
	VPBROADCASTB X12, Y12
	VPBROADCASTB X13, Y13
	VPBROADCASTB X14, Y14
	LEAQ     -64(BX), DI // the last place where a hundred and twenty-eight begin

widely:
	CMPQ      AX, DI
	JGT       narrow
	PREFETCHT0 4096(SI)(AX*1) // the processor by itself looks no further than a page
	PREFETCHT0 4160(SI)(AX*1)
	WIDE(0, Y0, Y4)
	WIDE(32, Y1, Y5)
	WIDE(64, Y2, Y6)
	WIDE(96, Y3, Y7)
	VPAND     Y1, Y0, Y0
	VPAND     Y3, Y2, Y2
	VPAND     Y2, Y0, Y0
	VPMOVMSKB Y0, DX
	CMPL      DX, $0xffffffff
	JNE       narrow
	SUBQ      $-128, AX
	JMP       widely

narrow:
	VZEROUPPER
	JMP many

few:
	CMPQ     AX, CX
	JGT      done
	MOVOU    (SI)(AX*1), X0
	LOOK(X0, X4)
	PMOVMSKB X0, DX
	XORL     $0xffff, DX
	JNZ      found
	ADDQ     $16, AX
	JMP      few

found:
	BSFL DX, DX
	ADDQ DX, AX

done:
	MOVQ AX, ret+16(FP)
	RET

// func hasAVX2() bool
//
// The processor has it, and the system keeps its registers.
TEXT ·hasAVX2(SB), NOSPLIT, $0-1
	MOVB $0, ret+0(FP)
	XORL AX, AX
	XORL CX, CX
	CPUID
	CMPL AX, $7
	JLT  without
	MOVL $1, AX
	XORL CX, CX
	CPUID
	ANDL $0x18000000, CX // OSXSAVE and AVX
	CMPL CX, $0x18000000
	JNE  without
	XORL CX, CX
	XGETBV
	ANDL $6, AX // of XMM and YMM
	CMPL AX, $6
	JNE  without
	MOVL $7, AX
	XORL CX, CX
	CPUID
	SHRL $5, BX
	ANDL $1, BX
	MOVB BX, ret+0(FP)

without:
	RET
