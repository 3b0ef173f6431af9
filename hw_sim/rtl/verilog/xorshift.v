// The register of random words: 32 bits, of which the low 16 decide a rounding.
module xorshift (
    input wire clk,
    input wire load,
    input wire [31:0] seed,  // not zero
    input wire draw,
    output wire [15:0] word
);
    reg [31:0] held;
    wire [31:0] a = held ^ (held << 13);
    wire [31:0] b = a ^ (a >> 17);
    wire [31:0] c = b ^ (b << 5);

    always @(posedge clk)
        if (load) held <= seed;
        else if (draw) held <= c;

    assign word = held[15:0];
endmodule
