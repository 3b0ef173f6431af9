// softmax - target of the logits, by a table of exp(-h) and one divider:
//     odds = table[(largest - logit + half) >> SHIFT],  share = (2^F odds + floor(norm / 2)) / norm
// An output takes a cycle to compare, two to look up, and one for each bit of its share.
module softmax_unit #(
    parameter OUTPUTS = 3,
    parameter INDEX = 4,
    parameter STATE = 10,
    parameter TARGET = 11,
    parameter ACC = 32,
    parameter SHIFT = 10,
    parameter ADDRESS = 13,  // of the table of exp(-h), twice as long as that of an activation
    parameter ODDS = 25      // bits of its words: 2^24 is one
) (
    input wire clk,
    input wire rst,
    input wire start,
    input wire use_target,                  // otherwise the shares are the outputs
    output reg [INDEX-1:0] output_index,    // asks for a logit, at once, and for a target, in a cycle
    input wire signed [ACC-1:0] logit,
    input wire signed [TARGET-1:0] target,
    output wire look,
    output wire [ADDRESS-1:0] address,
    input wire [ODDS-1:0] odds,
    output wire found,
    output wire signed [STATE:0] error,
    output reg done
);
    localparam F = STATE - 1;
    localparam NORM = ODDS + $clog2(OUTPUTS) + 1;
    localparam IN = ACC + 1 > SHIFT ? ACC + 1 : SHIFT + 1;
    localparam DEPTH = IN - SHIFT + 1;
    localparam WIDE = DEPTH > ADDRESS + 1 ? DEPTH : ADDRESS + 1;
    localparam [WIDE-1:0] DEEPEST = {{(WIDE - ADDRESS){1'b0}}, {ADDRESS{1'b1}}};
    localparam [INDEX-1:0] LAST = OUTPUTS[INDEX-1:0] - 1'b1;
    localparam REST = 3'd0, COMPARE = 3'd1, LOOK = 3'd2, SUM = 3'd3, BEGIN = 3'd4,
        DIVIDE = 3'd5, TELL = 3'd6;

    reg [2:0] doing;
    reg signed [ACC-1:0] largest;
    reg [NORM-1:0] norm;
    reg [ODDS-1:0] kept [0:OUTPUTS-1];
    // All indices of the chip are equally wide, and none is beyond the last output.
    /* verilator lint_off WIDTH */
    wire [ODDS-1:0] one_kept = kept[output_index];
    always @(posedge clk) if (doing == SUM) kept[output_index] <= odds;
    /* verilator lint_on WIDTH */

    wire signed [IN-1:0] below = {{(IN - ACC){largest[ACC-1]}}, largest}
        - {{(IN - ACC){logit[ACC-1]}}, logit};
    wire signed [DEPTH-1:0] depth;
    round_shift #(.IN(IN), .SHIFT(SHIFT)) nearest (.value(below), .word(depth));
    wire [WIDE-1:0] wide_depth = {{(WIDE - DEPTH + 1){1'b0}}, depth[DEPTH-2:0]};
    // Depths are at least zero, and those beyond the table are its last entry.
    assign address = depth[DEPTH-1] | (wide_depth < DEEPEST) ?
        wide_depth[ADDRESS-1:0] : {ADDRESS{1'b1}};
    assign look = doing == LOOK;

    // Long division: the share has STATE bits, since it is at most 2^F.
    reg [NORM-1:0] rest;
    reg [STATE-1:0] share;
    reg [STATE-1:0] lower;                  // bits of the dividend that wait
    reg [4:0] bits_left;
    wire [NORM+STATE-1:0] dividend = {{(NORM + STATE - ODDS - F){1'b0}}, one_kept,
        {F{1'b0}}} + {{(STATE + 1){1'b0}}, norm[NORM-1:1]};
    wire [NORM:0] brought_down = {rest, lower[STATE-1]};
    wire fits = brought_down >= {1'b0, norm};
    // The rest is less than the norm again.
    /* verilator lint_off UNUSEDSIGNAL */
    wire [NORM:0] reduced = fits ? brought_down - {1'b0, norm} : brought_down;
    /* verilator lint_on UNUSEDSIGNAL */

    assign found = doing == TELL;
    assign error = {1'b0, share} - (use_target ? target : {TARGET{1'b0}});

    wire is_last = output_index == LAST;
    always @(posedge clk) begin
        done <= 1'b0;
        if (rst) doing <= REST;
        else case (doing)
            REST: if (start) doing <= COMPARE;
            COMPARE: if (is_last) doing <= LOOK;
            LOOK: doing <= SUM;
            SUM: doing <= is_last ? BEGIN : LOOK;
            BEGIN: doing <= DIVIDE;
            DIVIDE: if (bits_left == 5'd1) doing <= TELL;
            TELL: begin
                doing <= is_last ? REST : BEGIN;
                done <= is_last;
            end
            default: doing <= REST;
        endcase

        case (doing)
            REST: begin
                output_index <= {INDEX{1'b0}};
                norm <= {NORM{1'b0}};
            end
            COMPARE: begin
                if (output_index == {INDEX{1'b0}} || logit > largest) largest <= logit;
                output_index <= is_last ? {INDEX{1'b0}} : output_index + 1'b1;
            end
            SUM: begin
                norm <= norm + {{(NORM - ODDS){1'b0}}, odds};
                output_index <= is_last ? {INDEX{1'b0}} : output_index + 1'b1;
            end
            BEGIN: begin
                rest <= dividend[NORM+STATE-1:STATE];
                lower <= dividend[STATE-1:0];
                share <= {STATE{1'b0}};
                bits_left <= STATE[4:0];
            end
            DIVIDE: begin
                rest <= reduced[NORM-1:0];
                lower <= lower << 1;
                share <= {share[STATE-2:0], fits};
                bits_left <= bits_left - 1'b1;
            end
            TELL: output_index <= output_index + 1'b1;
            default: ;
        endcase
    end
endmodule
