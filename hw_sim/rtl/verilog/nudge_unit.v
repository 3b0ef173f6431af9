// How hard a unit is pulled towards its target, one unit after the other.
// Where a softmax reads the units, errors came back through the weights into an accumulator:
//     pull = (gain * total + half) >> 12
// Where units are the outputs themselves, their own error is scaled to the point of an accumulator:
//     pull = ((gain * (state - target) + half) >> 12) << FRACTION
module nudge_unit #(
    parameter DIRECT = 0,
    parameter INDEX = 4,
    parameter STATE = 10,
    parameter TARGET = 11,
    parameter ACC = 32,
    parameter GAIN = 16,
    parameter FRACTION = 10,  // bits of a weight after the point
    parameter PULL = 40
) (
    input wire clk,
    input wire enter,
    input wire [INDEX-1:0] index,
    input wire signed [GAIN-1:0] gain,
    // One of the two is used, by DIRECT.
    /* verilator lint_off UNUSEDSIGNAL */
    input wire signed [ACC-1:0] total,      // of the unit that enters
    input wire signed [STATE-1:0] state,    // of the unit that entered in the cycle before
    input wire signed [TARGET-1:0] target,
    /* verilator lint_on UNUSEDSIGNAL */
    output reg found,
    output reg [INDEX-1:0] found_index,
    output wire signed [PULL-1:0] pull
);
    localparam BELOW = 12;  // bits of the gain after the point
    localparam ERROR = DIRECT ? TARGET + 1 : ACC;
    localparam PRODUCT = ERROR + GAIN;
    localparam SCALED = PRODUCT - BELOW + 1;

    always @(posedge clk) begin
        found <= enter;
        found_index <= index;
    end

    wire signed [ERROR-1:0] error;
    wire signed [PRODUCT-1:0] product = gain * error;
    wire signed [SCALED-1:0] scaled;
    round_shift #(.IN(PRODUCT), .SHIFT(BELOW)) nearest (.value(product), .word(scaled));

    wire signed [PULL-1:0] wide = {{(PULL - SCALED){scaled[SCALED-1]}}, scaled};

    generate
        if (DIRECT) begin : units_are_outputs
            assign error = {{(ERROR - STATE){state[STATE-1]}}, state}
                - {{(ERROR - TARGET){target[TARGET-1]}}, target};
            assign pull = wide <<< FRACTION;
        end else begin : softmax_reads_units
            reg signed [ACC-1:0] held;
            always @(posedge clk) held <= total;
            assign error = held;
            assign pull = wide;
        end
    endgenerate
endmodule
