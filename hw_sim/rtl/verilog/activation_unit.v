// From an accumulator to the next state of a unit, one unit after the other:
//     image = table[(saturate(total - pull) + half) >> SHIFT]
// It also finds how far the unit that moves most would move. A unit takes four cycles, and a new one
// can enter in each. The tables lie outside: there may be several.
module activation_unit #(
    parameter INDEX = 4,
    parameter STATE = 10,
    parameter ACC = 32,
    parameter PULL = 40,
    parameter SHIFT = 10,
    parameter ADDRESS = 12
) (
    input wire clk,
    input wire begin_scan,                // forget the largest move
    input wire enter,
    input wire [INDEX-1:0] index,
    input wire pulled,                    // the unit is nudged
    input wire signed [ACC-1:0] total,    // of the unit that enters
    input wire signed [PULL-1:0] pull,    // of the unit that entered in the cycle before
    output reg looking,
    output wire [ADDRESS-1:0] address,
    output reg [INDEX-1:0] looking_index,
    input wire signed [STATE-1:0] looked_up,
    input wire signed [STATE-1:0] state,  // before the step, beside `looked_up`
    output reg found,
    output reg [INDEX-1:0] found_index,
    output reg [STATE:0] gap,
    output reg entered,                   // beside `entered_total`, for who watches
    output reg signed [ACC-1:0] entered_total,
    output reg saturated
);
    localparam SUM = (ACC > PULL ? ACC : PULL) + 1;
    localparam IN = ACC > SHIFT ? ACC : SHIFT + 1;
    localparam NEAR = IN - SHIFT + 1;
    localparam WIDE = NEAR > ADDRESS ? NEAR : ADDRESS + 1;
    localparam signed [WIDE-1:0] LAST = {{(WIDE - ADDRESS + 1){1'b0}}, {(ADDRESS - 1){1'b1}}};
    localparam signed [WIDE-1:0] FIRST = ~LAST;

    reg [INDEX-1:0] entered_index;
    reg entered_pulled;

    wire signed [SUM-1:0] difference = {{(SUM - ACC){entered_total[ACC-1]}}, entered_total}
        - (entered_pulled ? {{(SUM - PULL){pull[PULL-1]}}, pull} : {SUM{1'b0}});
    wire signed [ACC-1:0] nudged;
    wire overflow;
    saturate #(.IN(SUM), .OUT(ACC)) subtractor (
        .value(difference), .word(nudged), .clipped(overflow)
    );

    wire signed [IN-1:0] wide_nudged = {{(IN - ACC + 1){nudged[ACC-1]}}, nudged[ACC-2:0]};
    wire signed [NEAR-1:0] rounded;
    round_shift #(.IN(IN), .SHIFT(SHIFT)) nearest (.value(wide_nudged), .word(rounded));
    wire signed [WIDE-1:0] near = {{(WIDE - NEAR + 1){rounded[NEAR-1]}}, rounded[NEAR-2:0]};
    // Bits above those of an address are only compared.
    /* verilator lint_off UNUSEDSIGNAL */
    wire signed [WIDE-1:0] clamped = near > LAST ? LAST : near < FIRST ? FIRST : near;
    /* verilator lint_on UNUSEDSIGNAL */

    reg signed [ADDRESS-1:0] place;  // from -ENTRIES / 2 on
    assign address = {~place[ADDRESS-1], place[ADDRESS-2:0]};

    wire signed [STATE:0] moved =
        {looked_up[STATE-1], looked_up} - {state[STATE-1], state};
    wire [STATE:0] distance = moved[STATE] ? -moved : moved;

    always @(posedge clk) begin
        entered <= enter;
        entered_index <= index;
        entered_pulled <= pulled;
        entered_total <= total;
        looking <= entered;
        looking_index <= entered_index;
        place <= clamped[ADDRESS-1:0];
        saturated <= entered & overflow;
        found <= looking;
        found_index <= looking_index;
        if (begin_scan) gap <= {(STATE + 1){1'b0}};
        else if (found && distance > gap) gap <= distance;
    end
endmodule
