// Compares the words of one kind with those that are expected, in their order.
module stream_check #(
    parameter WIDTH = 8,
    parameter COUNT = 1,
    parameter FILE = "expected.hex",
    parameter NAME = "word"
) (
    input wire clk,
    input wire seen,
    input wire signed [WIDTH-1:0] word
);
    reg signed [WIDTH-1:0] expected [0:COUNT];
    integer compared = 0;
    integer wrong = 0;
    wire [31:0] missing = compared < COUNT ? COUNT - compared : 0;

    initial if (COUNT > 0) $readmemh(FILE, expected, 0, COUNT - 1);

    always @(posedge clk)
        if (seen) begin
            if (compared >= COUNT || word !== expected[compared]) begin
                wrong = wrong + 1;
                if (wrong <= 5)
                    $display("%0s %0d is %0d, expected %0d", NAME, compared, word,
                        expected[compared]);
            end
            compared = compared + 1;
        end
endmodule
