    // @NAME@: units @FIRST_UNIT@ to @LAST_UNIT@. Rows: @ROW_NAMES@.
    reg hears_@K@, heard_@K@;
    reg [INDEX-1:0] row_@K@, heard_row_@K@;
    always @* begin
        hears_@K@ = 1'b0;
        row_@K@ = at;
        if (walking) hears_@K@ = 1'b1;
        else if (!to_outputs) begin
            case (kind)
@HEARS@
                default: ;
            endcase
        end
    end
    always @(posedge clk) begin
        heard_@K@ <= hears_@K@ & (add | learn);
        heard_row_@K@ <= row_@K@;
    end
    generate
        for (j = 0; j < @SIZE@; j = j + 1) begin : layer_@K@
            localparam SELF = @FIRST_CORE@ + j;
            localparam [INDEX-1:0] MINE = SELF[INDEX-1:0];
            wire listens = hears_@K@ & (~walking | (core == MINE));
            wire owns = walk_write & (core == MINE);
            wire copies = walk_write & copied & (copy_at_core == MINE);
            neuron_core #(
                .ROWS(@ROWS@), .OWNED(@OWNED@), .INDEX(INDEX), .WORD(WORD), .OWN(STATE + 1),
                .WEIGHT(WEIGHT), .ACC(ACC), .TRACE(TRACE)
            ) core_of (
                .clk(clk), .listen(listens), .read_trace(listens & (walking | learn)),
                .row(row_@K@), .heard(heard_@K@),
                .heard_row(heard_row_@K@), .word(word), .add(add_sent), .first(first_sent),
                .learn(learn_sent), .negate(@NEGATE@),
                .take_own(own_sent & @OWN_SIDE@ & (index_sent == @OWN_INDEX@)),
                .keep(keep), .restore(restore), .write(owns | copies),
                .write_row(owns ? at : copy_at), .write_weight(weight_word),
                .clear_trace(owns), .weight(weights[SELF*WEIGHT+:WEIGHT]),
                .trace(traces[SELF*TRACE+:TRACE]), .total(totals[SELF*ACC+:ACC]),
                .saturated(core_saturated[SELF])
            );
        end
    endgenerate
